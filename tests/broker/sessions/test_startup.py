"""A start with many sessions: CONNECT is answered at once, everything else waits until all subscriptions are known."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.sessions import startup as module
from strogoff.mqtt.packets import Connack, Pingreq, Pingresp, Puback, Suback, Will
from strogoff.sim.engine.host import STEP_S
from strogoff.storage.engine import StorageError

from ...harness.broker import BrokerHarness, PacketClient, connect, publish


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROWS", "COUNTED", "ATTACHED"):
        monkeypatch.setattr(module, name, 1)


def stopped(sessions: int, snapshots: bool = False, **options: Any) -> BrokerHarness:
    """Returns a node with absent sessions `s0`, `s1`, ... that subscribe to `t/0`, `t/1`, ..., killed, to be started
    slowly: it reads a row in each turn."""
    notes = 1 if snapshots else 100
    broker = BrokerHarness(load_step=1, snapshot_notes=notes, **options)
    for number in range(sessions):
        client = broker.persistent(f"s{number}")
        client.subscribe((f"t/{number}", 1), ("t/all", 1))
        client.leave()
    if snapshots:
        broker.pass_s(sessions + 5)
        assert broker.keys(b"f") == [] and broker.keys(b"v")
    broker.disk.crash(False)
    broker.host.kill()
    broker.settle()
    broker.disk = broker.disk.reopen()
    return broker


def begun(broker: BrokerHarness) -> None:
    """Start the process, but run no later turn of it."""
    broker.host.start()
    assert not broker.node.sessions.startup.ready and broker.node.policy.loading


def loaded(broker: BrokerHarness) -> None:
    """Let the node load everything."""
    while not broker.events("node.loaded")[broker.host.boot - 1 :]:
        broker.pass_s(STEP_S)
    broker.settle()


def ask_meanwhile(broker: BrokerHarness, *sent: Any, version: int = 4) -> PacketClient:
    """Returns a client that has sent packets while the node loads."""
    client = PacketClient(broker, version)
    client.send(*sent)
    return client


@pytest.mark.parametrize("snapshots", [False, True])
def test_a_client_is_answered_while_the_node_loads(snapshots: bool) -> None:
    """Its PUBLISH waits, and finds every subscriber."""
    broker = stopped(200, snapshots)
    begun(broker)
    back = ask_meanwhile(broker, connect("s150", clean=False))
    writer = ask_meanwhile(broker, connect("w"), publish("t/all", b"x", 1, 5), Pingreq())
    seen: list[Any] = []
    turns, answered = 0, False
    while not broker.node.sessions.startup.ready:
        seen += writer.take()
        answered = answered or bool(back.take())
        broker.pass_s(STEP_S)
        turns += 1
    assert turns > 50 and answered and [type(each) for each in seen] == [Connack]
    loaded(broker)
    assert sorted(map(str, writer.take())) == sorted(map(str, [Puback(5), Pingresp()]))
    assert back.payloads() == [b"x"]
    for number in (0, 77, 199):
        assert [message.payload for message in broker.persistent(f"s{number}").drain()] == [b"x"]


def test_a_subscription_meanwhile_counts_once() -> None:
    broker = stopped(50)
    begun(broker)
    client = ask_meanwhile(broker, connect("s40", clean=False))
    loaded(broker)
    connack, *_ = client.take()
    assert connack.session_present
    assert [type(each) for each in client.subscribe(("t/40", 2))] == [Suback]
    assert len(broker.node.router.table("")) == 100
    broker.client("w").publish("t/40", b"x", 1, 1)
    assert client.payloads() == [b"x"]


@pytest.mark.parametrize("snapshots", [False, True])
def test_a_clean_start_meanwhile_ends_the_session(snapshots: bool) -> None:
    """None of its subscriptions comes back from the rows or the snapshot that are read later."""
    broker = stopped(50, snapshots)
    begun(broker)
    client = ask_meanwhile(broker, connect("s40"))
    loaded(broker)
    connack, *_ = client.take()
    assert not connack.session_present
    assert "t/40" not in broker.node.router.table("") and len(broker.node.router.table("")) == 98
    assert broker.events("node.loaded")[-1]["sessions"] == 50  # 49 of the disk, and the clean one


def test_a_will_waits_until_everything_is_loaded() -> None:
    """The will of a client that comes and goes meanwhile, and that of a client that was connected at the kill."""
    broker = BrokerHarness(load_step=1)
    for number in range(30):
        client = broker.persistent(f"s{number}")
        client.subscribe(("t", 1))
        client.leave()
    watcher = broker.persistent("zz")
    watcher.subscribe(("will/#", 1))
    watcher.leave()
    broker.client("mortal", will=Will("will/1", b"1", 1))
    broker.disk.crash(False)
    broker.host.kill()
    broker.settle()
    broker.disk = broker.disk.reopen()
    begun(broker)
    short = ask_meanwhile(broker, connect("short", will=Will("will/2", b"2", 1)))
    while not short.take():
        broker.pass_s(STEP_S)
    assert not broker.node.sessions.startup.ready
    short.break_off()
    loaded(broker)
    payloads = [message.payload for message in broker.persistent("zz").drain()]
    assert sorted(payloads) == [b"1", b"2"]


@pytest.mark.parametrize(("delay_s", "away_s", "fires"), [(0, 0, True), (30, 0, False), (30, 31, True), (30, 5, False)])
def test_a_connect_meanwhile_cancels_no_will_that_is_due(delay_s: int, away_s: int, fires: bool) -> None:
    """Its client was connected at the kill (`away_s` 0), or absent for `away_s` seconds when it comes back."""
    broker = BrokerHarness(load_step=1)
    for number in range(30):
        client = broker.persistent(f"s{number}")
        client.subscribe(("will", 1))
        client.leave()
    late = Will("will", b"late", 1, properties={"will_delay_interval": delay_s})
    broker.client("c", 5, False, 1000, will=late).vanish() if away_s else broker.client("c", 5, False, 1000, will=late)
    broker.disk.crash(False)
    broker.host.kill()
    broker.settle()
    broker.pass_s(away_s)
    broker.disk = broker.disk.reopen()
    begun(broker)
    client = ask_meanwhile(broker, connect("c", 5, False, 1000), version=5)
    loaded(broker)
    connack, *_ = client.take()
    assert connack.session_present
    broker.pass_s(60)
    assert [message.payload for message in broker.persistent("s7").drain()] == ([b"late"] if fires else [])


def test_a_connect_meanwhile_finds_no_expired_session() -> None:
    broker = BrokerHarness(load_step=1)
    for number in range(30):
        broker.client(f"s{number}", 5, False, 10).leave()
    broker.disk.crash(False)
    broker.host.kill()
    broker.settle()
    broker.pass_s(11)
    broker.disk = broker.disk.reopen()
    broker.host.start()
    client = ask_meanwhile(broker, connect("s20", 5, False, 10), version=5)
    loaded(broker)
    connack, *_ = client.take()
    assert not connack.session_present
    broker.pass_s(1)
    assert [session.client_id for session in broker.node.sessions.everything()] == ["s20"]


def test_the_count_of_sessions_is_right() -> None:
    """Sessions are made, end and leave memory while they are counted."""
    broker = stopped(60, idle_session_s=0)
    begun(broker)
    clients = [ask_meanwhile(broker, connect(f"s{number}", clean=number % 2 == 0)) for number in range(0, 60, 3)]
    loaded(broker)
    for client in clients:
        client.leave()
    broker.pass_s(3)
    assert len(broker.node.sessions) == len(broker.keys(b"s")) == 50
    assert len({session.key for session in broker.node.sessions.everything()}) == 50
    assert broker.node.sessions.durable == 50


def test_a_kill_while_the_node_loads_loses_nothing() -> None:
    broker = stopped(40)
    for turns in (1, 5, 20, 60):
        begun(broker)
        broker.pass_s(turns * STEP_S)
        broker.disk.crash(False)
        broker.host.kill()
        broker.settle()
        broker.disk = broker.disk.reopen()
    broker.host.start()
    broker.pass_s(1)
    assert len(broker.node.router.table("")) == 80 and len(broker.node.sessions) == 40


@pytest.mark.parametrize("kind", [b"b", b"s"])
def test_an_error_of_the_disk_ends_the_start_only_before_it_is_ready(kind: bytes) -> None:
    """Without all subscriptions the node must not serve; without a count it can."""
    broker = stopped(40)
    begun(broker)
    failed: list[Exception] = []
    broker.node.sessions.startup.failed = failed.append
    engine: Any = broker.disk
    for name in ("scan", "keys"):
        read = getattr(engine, name)

        def broken(start: bytes, *rest: Any, read: Any = read, **more: Any) -> Any:
            if start[:1] == kind:
                raise StorageError("damaged")
            return read(start, *rest, **more)

        setattr(engine, name, broken)
    broker.pass_s(1)
    ready = broker.node.sessions.startup.ready
    assert (ready, [str(error) for error in failed]) == ((False, ["damaged"]) if kind == b"b" else (True, []))

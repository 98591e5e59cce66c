"""A start with many sessions: CONNECT is answered at once, everything else waits until all subscriptions are known."""

from __future__ import annotations

from itertools import count, islice
from typing import Any

import pytest

from strogoff.broker.queues.records import SessionRecord, WillRecord, encode
from strogoff.broker.sessions import startup as module
from strogoff.broker.sessions.slot_sessions import LEAVING
from strogoff.cluster.identity import slot_of
from strogoff.mqtt.packets import Connack, Pingreq, Pingresp, Puback, Suback, Will
from strogoff.sim.engine.host import STEP_S
from strogoff.storage import keys
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


def test_the_wills_of_clean_clients_fire_once_after_a_kill() -> None:
    """Their records are the node's: the slots have no rows of them."""
    broker = BrokerHarness(load_step=1)
    broker.persistent("watcher").subscribe(("will", 1))
    for number in range(5):
        broker.client(f"c{number}", will=Will("will", b"%d" % number, 1))
    broker.client("plain")
    assert len(broker.keys(b"S")) == 5 and len(broker.keys(b"s")) == len(broker.keys(b"e")) == 1
    for wills in ([b"%d" % number for number in range(5)], []):
        broker.restart()
        broker.pass_s(5)
        watcher = broker.persistent("watcher")
        assert sorted([message.payload for message in watcher.drain()]) == wills
        assert broker.keys(b"S") == broker.keys(b"Z") == []


def test_a_clean_client_that_connects_meanwhile_leaves_both_its_wills() -> None:
    """The one of the connection that the kill ended, and later the one of the new connection."""
    broker = BrokerHarness(load_step=1)
    for number in range(30):
        client = broker.persistent(f"s{number}")
        client.subscribe(("will", 1))
        client.leave()
    broker.client("c", will=Will("will", b"old", 1))
    broker.disk.crash(False)
    broker.host.kill()
    broker.settle()
    broker.disk = broker.disk.reopen()
    begun(broker)
    client = ask_meanwhile(broker, connect("c", will=Will("will", b"new", 1)))
    while not client.received:
        broker.pass_s(STEP_S)
    assert not broker.node.sessions.startup.swept
    loaded(broker)
    assert [type(each) for each in client.take()] == [Connack] and len(broker.keys(b"S")) == 1
    assert [message.payload for message in broker.persistent("s7").drain()] == [b"old"]
    client.vanish()
    assert [message.payload for message in broker.persistent("s8").drain()] == [b"old", b"new"]
    assert broker.keys(b"S") == []


def test_a_connect_reads_no_record_of_the_last_process_later(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = stopped(3)
    begun(broker)
    loaded(broker)
    engine: Any = broker.disk
    read: list[bytes] = []
    get = engine.get

    def noted(key: bytes) -> bytes | None:
        read.append(key[:1])
        return get(key)  # type: ignore[no-any-return]

    monkeypatch.setattr(engine, "get", noted)
    broker.client("new")
    broker.client("s1", clean=False)
    broker.node.sessions.on_disk("", "other")
    assert read.count(b"s") == 3 and b"S" not in read


def former(broker: BrokerHarness) -> int:
    """Write what a former version wrote for a connected client without durable state; returns its slot."""
    will = WillRecord("will", b"gone", 1, False, None, -1, 0)
    record = SessionRecord("", "old", 0, False, 4, None, 0, True, 0, will, 0, 0, 0, 0, {})
    slot = slot_of("", "old")
    client = keys.client_key(slot, "", "old")
    broker.node.env.store.put(keys.session_key(client), encode(record))
    broker.node.env.store.put(keys.deadline_key(client, 0), b"")
    broker.settle()
    return slot


def test_a_clean_client_of_a_former_version_leaves_its_will() -> None:
    broker = BrokerHarness()
    broker.persistent("watcher").subscribe(("will", 1))
    former(broker)
    for wills in ([b"gone"], []):
        broker.restart()
        assert [message.payload for message in broker.persistent("watcher").drain()] == wills
        assert [len(broker.keys(kind)) for kind in (b"s", b"e", b"S")] == [1, 1, 0], "the rows of the watcher"
    assert len(broker.node.sessions) == 1


def test_a_clean_client_of_a_former_version_in_a_slot_that_was_moving() -> None:
    broker = BrokerHarness()
    broker.persistent("watcher").subscribe(("will", 1))
    slot = former(broker)
    broker.node.slot_sessions.mark(slot, LEAVING)
    broker.settle()
    broker.restart()
    assert broker.persistent("watcher").drain() == []
    broker.node.slot_sessions.open(slot)
    assert [message.payload for message in broker.persistent("watcher").drain()] == [b"gone"]
    assert len(broker.keys(b"s")) == len(broker.keys(b"e")) == 1


def in_one_slot(number: int) -> list[str]:
    """Client ids of slot 9."""
    return list(islice((name for name in (f"c{n}" for n in count()) if slot_of("", name) == 9), number))


@pytest.mark.parametrize("idle_s", [0, 60])
def test_sessions_of_a_slot_elsewhere_do_not_count(idle_s: int) -> None:
    """Whether they were in memory when the slot closed or not."""
    broker = BrokerHarness(idle_session_s=idle_s, load_step=1)
    for name in [*in_one_slot(3), "other"]:
        broker.persistent(name).leave()
    broker.pass_s(2)
    node = broker.node
    assert len(node.sessions) == node.sessions.durable == 4
    for _ in range(2):
        node.slot_sessions.leave(9)
        assert len(node.sessions) == node.sessions.durable == 1
    assert [session.client_id for session in node.sessions.everything()] == ["other"]
    broker.settle()
    broker.restart()
    broker.pass_s(5)
    node = broker.node
    assert broker.events("node.loaded")[-1]["sessions"] == len(node.sessions) == 1
    for _ in range(2):
        node.slot_sessions.open(9)
    assert len(node.sessions) == node.sessions.durable == len(list(node.sessions.everything())) == 4
    broker.persistent(in_one_slot(1)[0])
    assert len(node.sessions) == 4
    broker.pass_s(5)
    assert len(node.sessions) == 4


def test_a_slot_that_opens_while_the_sessions_are_counted_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COUNTED", 4)
    broker = stopped(40)
    begun(broker)
    node = broker.node
    while node.sessions.startup.dormant.total < 20:
        broker.pass_s(STEP_S)
    assert node.sessions.startup.dormant.total == 20
    for number in range(40):
        node.slot_sessions.leave(slot_of("", f"s{number}"))
        node.slot_sessions.open(slot_of("", f"s{number}"))
    clients = [ask_meanwhile(broker, connect(f"s{number}", clean=False)) for number in range(0, 40, 5)]
    loaded(broker)
    assert all(client.take() for client in clients) and len(node.sessions) == 40


def test_a_start_begins_no_absence_in_a_slot_elsewhere() -> None:
    broker = BrokerHarness()
    broker.client(in_one_slot(1)[0], 5, False, 100)
    broker.node.slot_sessions.mark(9, LEAVING)
    broker.settle()
    before = broker.keys(b"e")
    broker.restart()
    broker.pass_s(5)
    assert broker.keys(b"e") == before and not broker.node.sessions.in_memory()

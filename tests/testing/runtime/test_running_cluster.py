"""A cluster of one node: kills, pauses, idle states, and impossible requests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop

from strogoff.analytics.schema import HEADER
from strogoff.configs import ConfigError
from strogoff.testing.client_errors import MqttRefused
from strogoff.testing.cluster import Cluster
from strogoff.testing.faults.packet_drops import FaultError
from strogoff.testing.log_audit.log_files import write_log
from strogoff.testing.runtime.directories import Engine
from strogoff.testing.runtime.in_process import InProcessServer
from strogoff.testing.runtime.node_handle import LeakError
from strogoff.testing.runtime.running_cluster import NotSettled, check_closed

from ..run_loop import run


@pytest.mark.parametrize("engine", ["memory", "leveldb"])
def test_acknowledged_data_survives_a_kill(engine: Engine) -> None:
    """Sessions, subscriptions and messages; the port stays; the audit finds nothing."""

    async def test() -> None:
        async with Cluster(engine=engine) as c:
            port = c[0].port
            rx = await c.client("rx", clean_start=False)
            await rx.subscribe("t/#", qos=2)
            await rx.disconnect()
            tx = await c.client("tx")
            for qos in (1, 2):
                await tx.publish("t/x", f"q{qos}", qos=qos)
            await c.kill(0)
            assert not c[0].up and await tx.closed() is None
            with pytest.raises(ConnectionError):
                await tx.reconnect()
            await c.start(0)
            assert c[0].up and c[0].port == port
            assert (await rx.reconnect()).session_present
            assert [(await rx.message()).text for _ in range(2)] == ["q1", "q2"]
            await c.settled()
            assert c.audit().problems() == [] and c.audit().delivered == 2
            assert c.faults == ["kill node 0", "start node 0"]

    run(test())


@pytest.mark.parametrize("engine", ["memory", "leveldb"])
def test_a_node_that_others_could_join(engine: Engine) -> None:
    """With a cluster listener it has a second database; both survive a kill."""

    async def test() -> None:
        async with Cluster(engine=engine, conf={"listener.vmq.default": "127.0.0.1:0"}) as c:
            rx = await c.client("rx", clean_start=False)
            for end in (c.kill, c.stop):
                await end(0)
                await c.start(0)
                assert c[0].server.cluster is not None
                assert (await rx.reconnect()).session_present

    run(test())


def test_a_kill_sends_nothing_to_clients() -> None:
    """No will fires at the kill; it fires after the start, when its client does not return."""

    async def test() -> None:
        from strogoff.mqtt.packets import Will

        async with Cluster() as c:
            await c.client("mortal", will=Will("will", b"gone", 1))
            rx = await c.client("rx", clean_start=False)
            await rx.subscribe("will", qos=1)
            await c.kill(0)
            assert [row["type"] for row in c.rows][-1] == "fault.kill"
            assert not [row for row in c.rows if row["type"] in ("will.fire", "node.stop", "conn.close")]
            await c.start(0)
            await rx.reconnect()
            assert (await rx.message()).text == "gone"
            await c.settled()
            assert c.audit().verdict == "valid"

    run(test())


def test_stop_and_restart() -> None:
    """Clients get a DISCONNECT, and a restart restores the state."""

    async def test() -> None:
        async with Cluster() as c:
            rx = await c.client("rx", clean_start=False)
            await rx.subscribe("t", qos=1)
            await c.restart(0)
            farewell = await rx.closed()
            assert farewell is not None and farewell.reason == 0x8B
            assert (await rx.reconnect()).session_present
            assert c.audit().verdict == "valid"

    run(test())


def test_a_paused_node_does_nothing() -> None:
    """It reads no bytes, accepts no connections, keeps its data, and continues afterwards."""

    async def test() -> None:
        async with Cluster() as c:
            rx = await c.client("rx")
            await rx.subscribe("t", qos=1)
            await c.pause(0)
            waiting = [asyncio.create_task(rx.publish("t", str(number), qos=1)) for number in range(3)]
            newcomer = asyncio.create_task(c.client("newcomer"))
            await c.settled()
            assert c[0].paused and not any(task.done() for task in (*waiting, newcomer))
            await c.resume(0)
            assert await asyncio.gather(*waiting) == [0, 0, 0]
            assert (await newcomer).connected
            assert [(await rx.message()).text for _ in range(3)] == ["0", "1", "2"]
            await c.settled()
            assert c.audit().verdict == "valid"

    run(test())


def test_the_third_acknowledgement_is_dropped() -> None:
    """An exact step: the broker has sent it, the publisher never gets it, the connection stays open."""

    async def test() -> None:
        async with Cluster() as c:
            tx = await c.client("tx")
            drop = c.drop("PUBACK", nth=3)
            for _ in range(2):
                await tx.publish("t", "x", qos=1)
            assert not drop.dropped and c.faults == ["node 0: drop PUBACK 3 out (2 seen), then go on"]
            with pytest.raises(TimeoutError):
                await tx.publish("t", "x", qos=1, timeout=0.02)
            await drop.happened()
            assert c.faults == ["node 0: drop PUBACK 3 out (dropped), then go on"]
            assert tx.connected and await tx.publish("t", "x", qos=1) == 16

    run(test())


def test_the_audit_says_what_a_full_queue_has_dropped() -> None:
    """The configuration allows it, so nothing is wrong; but the messages do not arrive."""

    async def test() -> None:
        async with Cluster(conf={"max_online_messages": 5, "max_inflight_messages": 2}) as c:
            rx = await c.client("rx", version=4, auto_ack=False)
            await rx.subscribe("t", qos=1)
            tx = await c.client("tx")
            for number in range(20):
                await tx.publish("t", str(number), qos=1)
            for _ in range(7):
                rx.ack(await rx.message())
            await c.settled()
            found = c.audit()
            assert found.problems() == [] and found.dropped == {"queue_full": 13}
            assert str(found) == (
                "valid: 20 published, 20 acknowledged, 7 delivered, 0 waiting, 13 dropped (queue_full)"
            )

    run(test())


def test_a_cluster_rests_when_nothing_waits() -> None:
    """Otherwise the error names the waiting item and its client."""

    async def test() -> None:
        async with Cluster() as c:
            rx = await c.client("rx", auto_ack=False)
            await rx.subscribe("t", qos=1)
            tx = await c.client("tx")
            await tx.publish("t", "x", qos=1)
            with pytest.raises(NotSettled, match="rx: 0 messages wait, 1 are not acknowledged") as caught:
                await c.settled(timeout=0.02)
            assert len(caught.value.pending) == 1
            await c.settled(clients=["tx"])
            rx.ack(await rx.message())
            await c.settled()

    run(test())


def test_a_test_can_wait_for_some_clients() -> None:
    """Clients of any name, and whatever they leave unanswered."""

    async def test() -> None:
        async with Cluster() as c:
            clients = [await c.client(name, auto_ack=False) for name in ("00:1b:44", "00", "slow")]
            await clients[0].subscribe("t", qos=1)
            await clients[2].subscribe("big")
            await clients[1].publish("t", "x", qos=1)
            await c.settled(clients=["00", "slow"])
            with pytest.raises(NotSettled, match="00:1b:44: 0 messages wait, 1 are not acknowledged"):
                await c.settled(timeout=0.02, clients=["00:1b:44"])
            assert clients[2]._transport is not None
            clients[2]._transport.pause_reading()
            for _ in range(20):
                await clients[1].publish("big", b"x" * 1_000_000)
            await c.settled(clients=["00"])
            with pytest.raises(NotSettled, match="slow: does not read"):
                await c.settled(timeout=0.02, clients=["slow"])

    run(test())


def test_the_same_seed_makes_the_same_choices() -> None:
    """Members of a shared subscription are chosen at random."""
    chosen: list[list[int]] = []

    async def once(seed: int) -> None:
        async with Cluster(seed=seed, conf={"shared_subscription_policy": "random"}) as c:
            members = [await c.client(f"m{number}") for number in range(3)]
            for member in members:
                await member.subscribe("$share/g/t", qos=1)
            tx = await c.client("tx")
            for _ in range(20):
                await tx.publish("t", "x", qos=1)
            await c.settled()
            chosen.append([len(member.take()) for member in members])

    for seed in (11, 11):
        run(once(seed))
    assert chosen[0] == chosen[1] and sum(chosen[0]) == 20
    assert Cluster(seed=11).seed == 11 and 0 <= Cluster().seed < 1 << 32


def test_two_clusters_at_once(tmp_path: Path) -> None:
    """They share nothing; a given directory is kept."""

    async def test() -> None:
        async with Cluster(directory=tmp_path / "a", engine="leveldb") as one, Cluster() as two:
            rx, other = await one.client("rx"), await two.client("rx")
            await other.subscribe("#")
            await rx.publish("t", "x", qos=1)
            await two.settled()
            assert other.take() == [] and rx.connected
            assert one[0].url == f"mqtt://127.0.0.1:{one[0].port}" != two[0].url

    before = set(threading.enumerate())
    run(test())
    assert {thread for thread in set(threading.enumerate()) - before if "asyncio" not in thread.name} == set()
    assert (tmp_path / "a" / "node0" / "strogoff.json").exists()


@pytest.mark.parametrize("engine", ["memory", "leveldb"])
def test_a_call_during_a_start_or_stop_runs_afterwards(engine: Engine) -> None:
    """It runs afterwards; a cluster closed meanwhile leaves nothing."""

    async def test() -> None:
        async with Cluster(engine=engine) as c:
            await asyncio.gather(c.stop(0), c.start(0))
            assert c[0].up
            await asyncio.gather(c.kill(0), c.start(0))
            await c.stop(0)
            both = await asyncio.gather(c.start(0), c.start(0), return_exceptions=True)
            assert both[0] is None and str(both[1]) == "node 0 is up"
            await c.kill(0)
            late = asyncio.create_task(c.start(0))
            await asyncio.sleep(0)
        await late
        assert not c[0].up
        with pytest.raises(RuntimeError, match="was opened before"):
            await c.open()

    before = set(threading.enumerate())
    run(test())
    assert [each.name for each in set(threading.enumerate()) - before if "asyncio" not in each.name] == []


def test_everything_is_closed_despite_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """One node fails to stop, or the test is cancelled at that time."""

    async def test(error: type[BaseException]) -> None:
        c = Cluster(3, pace=10)
        await c.open()

        async def fails() -> None:
            await InProcessServer.stop(server)
            raise error("of a plugin")

        server = c[1].server
        monkeypatch.setattr(server, "stop", fails)
        with pytest.raises(error, match="of a plugin"):
            await c.close()
        assert not any(handle.up for handle in c.nodes)
        assert c._temporary is not None and not c._temporary.exists()

    for error in (ValueError, asyncio.CancelledError):
        run(test(error))


def test_impossible_requests_are_errors() -> None:
    """Each error lists the possible values."""

    async def test() -> None:
        for arguments, text in (
            ({"nodes": 0}, "1 to 7"),
            ({"engine": "mnesia"}, "'memory' or 'leveldb'"),
            ({"links": "tcp"}, "'memory' or 'grpc'"),
            ({"pace": 50}, "between 0.1 and 20"),
        ):
            with pytest.raises(ValueError, match=text):
                Cluster(**arguments)
        with pytest.raises(ConfigError, match=r"(?s)conf: max_inflight_mesages: .*max_inflight_messages"):
            async with Cluster(conf={"max_inflight_mesages": 3}):
                pass
        async with Cluster() as c:
            assert len(c) == 1
            for work in (c.partition({0}, {1}), c.one_way(0, 1), c.heal()):
                with pytest.raises(FaultError, match="this cluster has one node"):
                    await work
            with pytest.raises(FaultError, match="there is no node 3"):
                await c.kill(3)
            with pytest.raises(FaultError, match="node 0 is up"):
                await c.start(0)
            with pytest.raises(FaultError, match="node 0 is not paused"):
                await c.resume(0)
            await c.kill(0)
            for end in (c.kill, c.stop, c.pause):
                with pytest.raises(FaultError, match="node 0 is down"):
                    await end(0)
            assert c.faults == ["kill node 0"]

    run(test())
    with pytest.raises(RuntimeError, match="no asyncio loop runs"):
        Cluster().open().send(None)


@pytest.mark.parametrize("engine", ["memory", "leveldb"])
def test_a_cluster_whose_loop_has_ended_is_a_leak(engine: Engine) -> None:
    """It is told once, its port is free, and its temporary data is gone. One in a loop that goes on may be meant so."""
    loop = asyncio.new_event_loop()
    going_on, left = Cluster(), Cluster(engine=engine)
    loop.run_until_complete(going_on.open())
    asyncio.run(left.open())
    with pytest.raises(LeakError, match=r"a cluster was left open \(1 node\)"):
        check_closed()
    assert left[0]._reserved.fileno() == -1 and not left[0].directory.exists()
    check_closed([left])
    with pytest.raises(LeakError, match="left open"):
        check_closed([going_on])
    loop.run_until_complete(going_on.close())
    loop.close()
    check_closed()


def test_the_log_can_be_kept(tmp_path: Path) -> None:
    """It has the layout of the broker's own; its audit gives the same result."""

    async def test() -> None:
        async with Cluster() as c:
            tx = await c.client("tx")
            await tx.publish("t", "x", qos=1)
            await c.restart(0)
            assert c.write_log(tmp_path) == tmp_path
        assert c.audit().verdict == "valid"
        assert write_log(c.rows, tmp_path / "again") == tmp_path / "again"

    run(test())
    assert len(list(tmp_path.glob("date=*/hour=*/node=node0@127.0.0.1/boot=*-*.jsonl"))) == 2


def test_on_uvloop() -> None:
    """As the broker itself runs: traffic, a reset connection, a kill."""

    async def test() -> None:
        async with Cluster() as c:
            tx = await c.client("tx", clean_start=False)
            c.drop("PUBACK", then="cut")
            with pytest.raises(ConnectionError):
                await tx.publish("t", "x", qos=1)
            await tx.reconnect()
            await c.settled()
            await c.kill(0)
            await tx.closed()
            await c.start(0)
            assert (await tx.reconnect()).session_present

    uvloop.run(test())


def test_the_log_is_audited_and_written_while_it_grows(tmp_path: Path) -> None:
    """Another thread than that of the brokers does this for a failed test: rows that arrive meanwhile are left out."""

    async def test() -> None:
        async with Cluster() as c:
            first = c.rows[0]

            class Grows(str):
                """A value in a row whose encoding takes so long that another row arrives."""

                __slots__ = ()

                def __hash__(self) -> int:
                    c._rows.append(first)
                    return super().__hash__()

            rows = len(c.rows)
            last = c.rows[-1]
            header = {each.name: last[each.name] for each in HEADER}
            c._rows.append({**header, "seq": last["seq"] + 1, "node": Grows(last["node"]), "type": "node.stop"})
            assert c.audit().verdict == "valid"
            c.write_log(tmp_path)
            assert len(c.rows) > rows + 2

    run(test())


def test_no_file_of_the_project_under_test_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have rules and passwords for its own broker in `etc`. Without these files nothing warns."""
    monkeypatch.chdir(tmp_path)

    async def test() -> None:
        async with Cluster() as c:
            assert await (await c.client("tx")).publish("t", "x", qos=1) == 16
            assert [line for line in c[0].log if line.startswith("warning")] == []

    run(test())
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "vmq.acl").write_text("topic read nothing\n")
    (tmp_path / "etc" / "vmq.passwd").write_text("this is no password file\n")
    run(test())


def test_a_client_of_another_listener() -> None:
    """Also after a start, when it has another port."""

    async def test() -> None:
        conf = {"listener.tcp.old": "127.0.0.1:0", "listener.tcp.old.allowed_protocol_versions": "4"}
        async with Cluster(conf=conf) as c:
            with pytest.raises(MqttRefused, match="unsupported protocol version"):
                await c.client("new", listener="listener.tcp.old")
            old = await c.client("old", listener="listener.tcp.old", version=4)
            await c.restart(0)
            await old.reconnect()
            with pytest.raises(
                FaultError, match=r"^node 0 has no listener.ws.mine: it has listener.tcp.default, liste"
            ):
                await c.client("ws", listener="listener.ws.mine")
            with pytest.raises(TypeError, match="no host and no port: give `node` and `listener`, or use Client"):
                await c.client("mine", host="localhost", port=c[0].ports()["listener.tcp.old"])

    run(test())


def test_a_cluster_of_another_loop_says_so_at_once() -> None:
    """As with a fixture of the session and a test with a loop of its own. In the right loop the cluster still works."""
    c = Cluster()
    with asyncio.Runner() as right:
        right.run(c.open())
        calls: list[Callable[[], Coroutine[Any, Any, Any]]] = [
            c.settled,
            c.whole,
            c.heal,
            c.close,
            partial(c.client, "rx"),
            partial(c.sees, 0, "whole"),
            *(partial(each, 0) for each in (c.kill, c.stop, c.start, c.restart, c.pause, c.resume)),
        ]

        async def test() -> None:
            for call in calls:
                with pytest.raises(RuntimeError, match="belongs to another event loop: give the test the same loop_"):
                    await call()

        thread = threading.Thread(target=lambda: results.append(_outcome(test)))
        results: list[BaseException | None] = []
        thread.start()
        thread.join()
        assert results == [None] and c[0].up and c.faults == []
        right.run(c.settled())
        right.run(c.close())


def test_a_state_that_no_node_can_see() -> None:
    """The wait would end with its timeout."""

    async def test() -> None:
        wrong: Any = "mayority"
        async with Cluster() as c:
            with pytest.raises(ValueError, match="state = 'mayority': 'whole', 'majority', 'minority'"):
                await c.sees(0, wrong)

    run(test())


def _outcome(test: Callable[[], Coroutine[Any, Any, None]]) -> BaseException | None:
    """Run a test in a loop of its own. Returns its error."""
    try:
        asyncio.run(test())
    except BaseException as error:
        return error
    return None

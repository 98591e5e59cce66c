"""Real servers in one process, on a network in memory: join, leave, the rows for operators, and refusals."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from bench.steady import SteadyClient
from strogoff.broker.clustering import discovery, runtime
from strogoff.broker.clustering.leaving import DEPART
from strogoff.broker.clustering.operator_port import ClusterError
from strogoff.broker.clustering.runtime import ClusterRuntime
from strogoff.broker.process.server import machine_boot, uptime_ms
from strogoff.cli import main
from strogoff.cluster.clock import SavedTime, encode_saved
from strogoff.cluster.identity import slot_of
from strogoff.cluster.transport.memory_asyncio import AsyncioMemoryTransport
from strogoff.cluster.transport.wire import CallFailed
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from strogoff.storage.leveldb import LevelDBEngine
from tests.harness.servers import ServersInMemory, run, said
from tests.harness.thinning import thinned
from tests.harness.waiting import until

PLACES = "127.0.0.1:44001 127.0.0.1:44002 127.0.0.1:44003"


def test_a_node_alone_is_a_cluster_of_its_own(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        shell = await harness.start("n1")
        (row,) = shell.rows()
        assert (row.node, row.state, row.running, row.voter) == ("n1@127.0.0.1", "serving", True, True)
        status = shell.status()
        assert (status.sees, status.members, status.serving, status.view_id) == ("whole", 1, 1, 0)
        assert shell.counters["cluster_bytes_sent"] == 0
        assert shell.address == "127.0.0.1:44001"

    run(tmp_path, scenario)


def test_a_node_that_cannot_save_its_join_can_join_again(tmp_path: Path) -> None:
    """For example with a full disk. The other nodes already list this node as a member; discovery tries again after a
    `ClusterError`.
    """

    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        hindrance = tmp_path / "n2" / "strogoff.json.new"
        hindrance.mkdir()
        with pytest.raises(ClusterError, match=r"^the data directory of n2@127.0.0.1 cannot be written \(.*make room"):
            await two.join("127.0.0.1:44001", False)
        assert [row.state for row in two.rows()] == ["absent"]
        await refused(harness, "n2")
        hindrance.rmdir()
        await two.join("127.0.0.1:44001", False)
        await until(lambda: one.status().serving == two.status().serving == 2)

    run(tmp_path, scenario)


def test_rows_and_status_follow_join_and_leave(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        one, two, three = [await harness.start(name) for name in ("n1", "n2", "n3")]
        await two.join("127.0.0.1:44001", False)
        await three.join("n2@127.0.0.1:44002", False)  # every member can be asked
        await until(lambda: all(shell.status().serving == 3 for shell in (one, two, three)))
        for shell in (one, two, three):
            status = shell.status()
            assert (status.sees, status.members, status.serving) == ("whole", 3, 3)
            assert status.cluster_id == one.status().cluster_id == shell._node.env.events.run_id
            assert status.leader is not None
            assert 0 < status.lease_ms_left <= 400
            assert [row.state for row in shell.rows()] == ["serving"] * 3
            assert [row.incarnation[:5] for row in shell.rows()] == ["boot "] * 3
        await until(lambda: all(row.running for row in one.rows()))
        assert [row.heard_ms is None for row in one.rows()] == [True, False, False]
        assert one.counters["cluster_bytes_sent"] > 0
        assert three.status().balance
        lines = await said(one, "n3@127.0.0.1")
        assert lines == ["n3@127.0.0.1 runs: it is asked to leave", "Done"]
        assert [row.node for row in one.rows()] == ["n1@127.0.0.1", "n2@127.0.0.1"]
        await until(lambda: three.status().balance == "")
        await until(lambda: one.status().sees == "whole")

    harness = run(tmp_path, scenario)
    assert "warning: n3@127.0.0.1 has left the cluster" in harness.log["n3"]


def test_operators_see_slots_and_zones_at_every_node(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1", node__zone="rack1"), await harness.start("n2", node__zone="rack2")
        table, zones = one.slots()
        assert list(table.slots_by_primary) == ["n1@127.0.0.1"] and zones == {"n1@127.0.0.1": "rack1"}
        await two.join("127.0.0.1:44001", False)
        for shell in (one, two):
            table, zones = shell.slots()
            assert zones == {"n1@127.0.0.1": "rack1", "n2@127.0.0.1": "rack2"}
            assert table.row(255).primary == table.row(0).primary and list(table.slots_by_primary) == ["n1@127.0.0.1"]
            assert table.index > 0

    run(tmp_path, scenario)


@pytest.mark.slow
def test_a_stopped_member_is_shown_as_absent_and_returns_after_a_restart(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        one, two, three = [await harness.start(name) for name in ("n1", "n2", "n3")]
        await two.join("127.0.0.1:44001", False)
        await three.join("127.0.0.1:44001", False)
        await harness.stop("n3")
        await until(lambda: one.rows()[2].state == "absent")
        assert (one.rows()[2].running, one.rows()[2].incarnation) == (False, "")
        assert one.status().sees == "majority"
        again = await harness.start("n3")
        assert again.status().sees == "minority"
        await until(lambda: again.status().sees == "whole" and one.status().sees == "whole")
        assert one.rows()[2].incarnation.startswith("boot 2 ")

    run(tmp_path, scenario)


async def _save_clock(messages: Path, clusters: bool) -> None:
    """Save the present time on the disk of a stopped node: a cluster's, or that of a node alone."""
    loop = asyncio.get_running_loop()
    written: asyncio.Future[object] = loop.create_future()
    engine = LevelDBEngine(messages, loop.call_soon_threadsafe)
    saved = SavedTime(time.time_ns() // 1_000_000, int(uptime_ms()), machine_boot(), clusters)
    engine.write({b"nclock": encode_saved(saved)}, written.set_result)
    assert await written is None
    engine.close()


@pytest.mark.slow
def test_a_member_believes_the_saved_time_only_if_it_is_its_clusters(tmp_path: Path) -> None:
    """H-17: the disk of n2 is as if it had been killed before it saved its clock as a member."""

    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        await until(lambda: one.status().serving == two.status().serving == 2)
        await harness.stop("n1")
        for clusters in (True, False):
            await harness.stop("n2")
            await _save_clock(tmp_path / "n2" / "messages", clusters)
            two = await harness.start("n2")
            assert two._node.env.clock.known == clusters
        await harness.start("n1")
        await until(lambda: two.status().sees == "whole" and two._node.env.clock.known)

    run(tmp_path, scenario)


@pytest.mark.slow
def test_a_node_with_messages_in_memory_stays_a_member_after_a_restart(tmp_path: Path) -> None:
    """Before, the log of the cluster was in memory as well: the node served alone and was refused as an old copy of its
    disk.
    """

    async def scenario(harness: ServersInMemory) -> None:
        names = ("n1", "n2", "n3")
        _, two, three = [await harness.start(name, message_store__engine="memory") for name in names]
        await two.join("127.0.0.1:44001", False)
        await three.join("127.0.0.1:44001", False)
        for stopped in (("n3",), names):
            for name in stopped:
                await harness.stop(name)
            for name in stopped:
                await harness.start(name, message_store__engine="memory")
            shells = [server.cluster for server in harness.servers.values()]
            await until(lambda: all(each and each.status().serving == 3 for each in shells))  # noqa: B023

    harness = run(tmp_path, scenario)
    assert not [line for line in harness.log["n3"] if line.startswith("error")]


def test_the_owner_is_called_when_this_node_has_left(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        told: list[str] = []
        two.when_left = lambda: told.append("left")
        assert (await said(two, "n2@127.0.0.1"))[-1] == "Done"
        assert told == ["left"]
        await until(lambda: len(one.rows()) == 1)

    run(tmp_path, scenario)


JOINS = [
    ("nowhere:0", "is no address"),
    ("127.0.0.1:44009", "127.0.0.1:44009: "),
    ("127.0.0.1:44001", "cannot join itself"),
]


@pytest.mark.parametrize(("address", "problem"), JOINS)
def test_an_impossible_join_gives_its_reason(tmp_path: Path, address: str, problem: str) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        shell = await harness.start("n1")
        with pytest.raises(ClusterError) as caught:
            await shell.join(address, False)
        assert problem in str(caught.value)
        assert shell.status().members == 1
        assert shell.member is not None
        assert not shell.member.join_leave.joining

    run(tmp_path, scenario)


def test_a_member_cannot_join_again(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        await harness.start("n1")
        two = await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        with pytest.raises(ClusterError, match="is a member of a cluster already, with n1@127"):
            await two.join("127.0.0.1:44001", False)

    run(tmp_path, scenario)


def test_a_joining_node_accepts_no_second_join(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        _, two, three = [await harness.start(name) for name in ("n1", "n2", "n3")]
        joining = asyncio.create_task(two.join("127.0.0.1:44001", False))
        await until(lambda: two.member is not None and two.member.join_leave.joining)
        with pytest.raises(ClusterError, match="is joining already"):
            await two.join("127.0.0.1:44001", False)
        with pytest.raises(ClusterError, match="is about to join a cluster itself"):
            await three.join("127.0.0.1:44002", False)
        await joining
        await three.join("127.0.0.1:44002", False)
        assert three.status().members == 3

    run(tmp_path, scenario)


@pytest.mark.slow
def test_own_sessions_are_merged_only_on_request(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        await harness.start("n1")
        two = await harness.start("n2")
        client = await harness.client("n2", "c")
        with pytest.raises(ClusterError, match=r"has 1 sessions and 0 retained messages of its own: use --merge"):
            await two.join("127.0.0.1:44001", False)
        await two.join("127.0.0.1:44001", True)
        assert two.status().members == 2
        await client.abort()

    run(tmp_path, scenario)


def test_a_node_with_durable_sessions_joins_no_other_node_but_others_join_it(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        client = await harness.client("n2", "c", clean=False)
        with pytest.raises(ClusterError, match=r"n2@127.0.0.1 has 1 durable sessions of its own"):
            await two.join("127.0.0.1:44001", True)
        await one.join("127.0.0.1:44002", False)
        await until(lambda: "n1@127.0.0.1" in two.slots()[0].slots_by_primary)
        slot = two.slots()[0].row(slot_of("", "c"))
        assert slot.primary is not None and slot.primary.node == "n2@127.0.0.1"
        await client.abort()

    run(tmp_path, scenario)


def test_malformed_calls_are_refused(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        await harness.start("n1")
        caller = AsyncioMemoryTransport(harness.network, "stranger")
        for method, request, problem in (
            (DEPART, b"\x01", "six bytes are expected, not 1"),
            ("join", b"\xc1", "JoinRequest of 1 bytes"),
        ):
            with pytest.raises(CallFailed, match=problem):
                await caller.call("127.0.0.1:44001", method, request, 2.0)

    run(tmp_path, scenario)


def test_the_node_that_had_clients_first_founds_the_cluster(tmp_path: Path) -> None:
    """Otherwise the lowest name founds it, and refuses nodes with sessions of their own: both nodes
    would stay alone.
    """

    async def scenario(harness: ServersInMemory) -> None:
        places = "127.0.0.1:44001 127.0.0.1:44002"
        two = await harness.start("n2")
        await (await harness.client("n2", "c", clean=False)).abort()
        await harness.stop("n2")
        two = await harness.start("n2", discovery__nodes=places)
        one = await harness.start("n1", discovery__nodes=places)
        await until(lambda: one.status().serving == two.status().serving == 2)

    run(tmp_path, scenario)


def test_nodes_that_start_together_find_each_other(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        places = "127.0.0.1:44001 127.0.0.1:44002 127.0.0.1:44003"
        shells = [await harness.start(name, discovery__nodes=places) for name in ("n3", "n2", "n1")]
        await until(lambda: all(shell.status().serving == 3 for shell in shells))
        assert len({shell.status().cluster_id for shell in shells}) == 1

    run(tmp_path, scenario)


@pytest.mark.slow
def test_other_nodes_do_not_wait_for_a_stopped_node(tmp_path: Path) -> None:
    """The node leaves the view before it stops. Before, the others waited for the detection time as after a kill."""

    async def scenario(harness: ServersInMemory) -> None:
        policy = {f"allow_{each}_during_netsplit": "majority" for each in ("register", "publish", "subscribe")}
        shells = [await harness.start(name, discovery__nodes=PLACES, **policy) for name in ("n1", "n2", "n3")]
        await until(lambda: all(shell.status().serving == 3 for shell in shells))
        await until(lambda: all(len(_voters(shell)) == 3 for shell in shells))
        await until(
            lambda: all(server.node.policy.view_state is ViewState.WHOLE for server in harness.servers.values())
        )
        leader = shells[0].status().leader
        names = sorted(("n1", "n2", "n3"), key=lambda name: name == str(leader)[:2])
        await (await harness.client(names[1], "reader")).subscribe("t", 1)
        stopped = {name: harness.servers[name].cluster for name in names}[names[1]]
        assert stopped is not None and stopped.member is not None
        await harness.stop(names[1])
        assert stopped.member.has_left_view
        writer = await harness.client(names[0], "writer")
        began = asyncio.get_running_loop().time()
        await writer.publish("t", b"m", 1)
        await until(lambda: not writer.outgoing)
        assert asyncio.get_running_loop().time() - began < 0.2  # detection takes 0.4 s here

    run(tmp_path, scenario)


def _voters(shell: ClusterRuntime) -> list[str]:
    return [row.node for row in shell.rows() if row.voter]


async def refused(harness: ServersInMemory, name: str) -> None:
    """Check that a client can connect and that the node refuses it."""
    with pytest.raises(ConnectionError):
        await harness.client(name, "c")


@pytest.mark.parametrize("others", thinned(["away", "without a majority", "there"], 3))
def test_a_node_that_lost_its_disk_refuses_clients_until_it_has_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: str
) -> None:
    """It looks like a new node. Before, it acknowledged publishes that its cluster never got."""

    async def scenario(harness: ServersInMemory) -> None:
        places = "127.0.0.1:44001 127.0.0.1:44002 127.0.0.1:44003"
        policy = {f"allow_{each}_during_netsplit": "on" for each in ("register", "publish")}
        names = ("n1", "n2", "n3")
        shells = [await harness.start(name, discovery__nodes=places, **policy) for name in names]
        await until(lambda: all(shell.status().serving == 3 for shell in shells))
        for name in {"away": names, "without a majority": ("n2", "n3"), "there": ("n3",)}[others]:
            await harness.stop(name)
        (tmp_path / "n3").rename(tmp_path / "lost disk of n3")
        if others == "without a majority":
            monkeypatch.setattr(discovery, "FIRST_S", 0.5)  # the start waits as long as this, and then continues
        three = await harness.start("n3", discovery__nodes=places, **policy)
        if others == "there":
            await until(lambda: "This node starts again, and joins by itself" in three.serves_nobody)
        else:
            says = "1 of the 3 nodes" if others == "away" else "has no majority now, and knows n3@127.0.0.1 as a member"
            await until(lambda: says in three.serves_nobody)
        await refused(harness, "n3")
        assert three.status().serves_nobody and three.status().sees == "minority"
        assert [row.state for row in three.rows()] == ["absent"]
        if others == "there":
            await harness.stop("n3")
            three = await harness.start("n3", discovery__nodes=places, **policy)
            assert three.serves_nobody == ""
            await (await harness.client("n3", "c")).abort()
        if others == "away":
            await three.found()
            await (await harness.client("n3", "c")).abort()
            with pytest.raises(ClusterError, match="is a member of a cluster already"):
                await three.found()

    run(tmp_path, scenario)


@pytest.mark.slow
def test_a_node_without_discovery_learns_of_its_lost_disk_from_a_member(tmp_path: Path) -> None:
    """The node does not know that it was in a cluster until a member connects to it."""

    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        await until(lambda: one.status().serving == two.status().serving == 2)
        await harness.stop("n2")
        (tmp_path / "n2").rename(tmp_path / "lost disk of n2")
        two = await harness.start("n2")
        await until(lambda: two.serves_nobody)
        assert two.serves_nobody.startswith("n1@127.0.0.1 says that n2@127.0.0.1 is a member of its cluster")
        assert "vmq-admin cluster join discovery-node=n1@127.0.0.1:44001 --replace" in two.serves_nobody
        await refused(harness, "n2")
        three = await harness.start("n3")
        with pytest.raises(ClusterError, match=r"n2@127\.0\.0\.1 is in no cluster itself: n1@127\.0\.0\.1 says"):
            await three.join("127.0.0.1:44002", False)
        for _ in range(2):
            with pytest.raises(ClusterError, match=r"This node starts again\. Then join again"):
                await two.join("127.0.0.1:44001", False, True)
        await harness.stop("n2")
        two = await harness.start("n2")
        await two.join("127.0.0.1:44001", False, True)
        assert two.serves_nobody == ""
        await (await harness.client("n2", "c")).abort()

    run(tmp_path, scenario)


def test_a_node_stopped_by_an_error_says_to_start_it_again(tmp_path: Path) -> None:
    """Its disk is good: `strogoff reset` would lose the sessions."""

    async def scenario(harness: ServersInMemory) -> None:
        one = await harness.start("n1")
        await one.found()
        one._member.registrar.stopped(ZeroDivisionError("a defect"))
        assert "Stop the node and start it again" in one.serves_nobody and "reset" not in one.serves_nobody
        await refused(harness, "n1")

    run(tmp_path, scenario)


@pytest.mark.slow
def test_another_node_at_the_address_of_a_member_keeps_serving(tmp_path: Path) -> None:
    """It has another name, so it is not the member that had this address before."""

    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        await harness.stop("n2")
        other = await harness.start("n3", listener__vmq__default="127.0.0.1:44002")
        refusal = "warning: stream from n1@127.0.0.1 refused"
        await until(lambda: any(line.startswith(refusal) for line in harness.log["n3"]) and other.probes > 2)
        assert other.serves_nobody == "" and one.status().members == 2
        await (await harness.client("n3", "c")).abort()

    run(tmp_path, scenario)


@pytest.mark.slow
def test_an_operator_can_found_a_cluster_without_the_others(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        places = "127.0.0.1:44001 127.0.0.1:44002 127.0.0.1:44003"
        one = await harness.start("n1", discovery__nodes=places)
        await refused(harness, "n1")
        await one.found()
        await (await harness.client("n1", "c")).abort()
        two = await harness.start("n2", discovery__nodes=places)
        await until(lambda: two.status().serving == 2)
        three = await harness.start("n3", discovery__nodes=places, discovery__expected_nodes="1")
        await until(lambda: three.status().serving == 3)

    run(tmp_path, scenario)


@pytest.mark.parametrize("wrote", thinned(["nothing", "before it asks", "before the restart", "after it"], 3))
def test_a_member_with_a_new_disk_must_rejoin_empty(tmp_path: Path, wrote: str) -> None:
    """The first boot numbers of the new disk repeat those of the lost disk: their writes have the same ids."""
    early = wrote.startswith("before")

    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        await two.join("127.0.0.1:44001", merge=False)
        two.config.put(b"k", b"of the lost disk")
        await two.spread()
        await harness.stop("n2")
        (tmp_path / "n2").rename(tmp_path / "lost disk of n2")
        two = await harness.start("n2")
        if wrote == "before it asks":
            two.config.put(b"other", b"of the new one")
        problem = "empty data directory" if wrote == "before it asks" else r"This node starts again\. Then join again"
        with pytest.raises(ClusterError, match=problem):
            await two.join("127.0.0.1:44001", merge=True, replace=True)
        if wrote == "before the restart":
            two.config.put(b"other", b"of the new one")
        for _ in range(2):
            await harness.stop("n2")
            two = await harness.start("n2")
        if early:
            with pytest.raises(ClusterError, match="empty data directory"):
                await two.join("127.0.0.1:44001", merge=True, replace=True)
            return
        if wrote == "after it":
            two.config.put(b"other", b"of the new one")
        with pytest.raises(ClusterError, match="if the disk is lost, join with --replace"):
            await two.join("127.0.0.1:44001", merge=False)
        await two.join("127.0.0.1:44001", merge=False, replace=True)
        assert two.config.get(b"k") == one.config.get(b"k") == b"of the lost disk"
        assert one.config.get(b"other") == two.config.get(b"other") == (b"of the new one" if "after" in wrote else None)

    run(tmp_path, scenario)


@pytest.mark.slow
def test_wills_of_a_stopped_node_reach_the_others(tmp_path: Path) -> None:
    """With one copy the wills fire when the node closes its connections, and no client sends them again: the stop waits
    for the other nodes (P5).
    """

    async def scenario(harness: ServersInMemory) -> None:
        one, two = [await harness.start(name, queue_replicas="1") for name in ("n1", "n2")]
        await two.join("127.0.0.1:44001", False)
        await until(lambda: one.status().serving == two.status().serving == 2)
        came: list[bytes] = []
        reader = await harness.client("n2", "reader", False)
        reader.delivered = lambda topic, payload, *_: came.append(payload)
        await reader.subscribe("will/#", 1)
        wills = [packets.Will(f"will/{number}", b"%d" % number * 30000, 1) for number in range(100)]
        port = harness.servers["n1"].listeners.show()[0].port
        mortals = [SteadyClient(will.topic, port, 4, will=will) for will in wills]
        await asyncio.gather(*[mortal.connect(True) for mortal in mortals])
        await harness.stop("n1")
        await asyncio.gather(*[mortal.gone.wait() for mortal in mortals])
        await until(lambda: len(came) == 100)

    run(tmp_path, scenario)


def test_a_removed_node_names_the_remedy_and_the_remedy_works(tmp_path: Path) -> None:
    """Before, a node restarted by its supervisor answered 503 for ever without a reason."""

    async def scenario(harness: ServersInMemory) -> None:
        policy = {f"allow_{each}_during_netsplit": "on" for each in ("register", "publish")}
        one, two = await harness.start("n1"), await harness.start("n2", **policy)
        await two.join("127.0.0.1:44001", False)
        assert (await said(two, "n2@127.0.0.1"))[-1] == "Done"
        await harness.stop("n2")
        two = await harness.start("n2", **policy)
        assert two.serves_nobody == (
            "this node has left the cluster. To take it in again, with no sessions: stop the node, run `strogoff reset "
            f"{tmp_path / 'n2'}`, and start the node"
        )
        await refused(harness, "n2")
        with pytest.raises(ClusterError, match="strogoff reset"):
            await two.join("127.0.0.1:44001", False)
        await harness.stop("n2")
        assert main(["reset", str(tmp_path / "n2")]) == 0
        two = await harness.start("n2", **policy)
        await two.join("127.0.0.1:44001", False)
        await until(lambda: one.status().serving == two.status().serving == 2)
        await (await harness.client("n2", "c")).abort()

    run(tmp_path, scenario)


def test_a_slot_that_an_operator_moves_has_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for the slot that just moves by itself, and no other one moves by itself for a while."""
    monkeypatch.setattr(runtime, "MOVE_S", 0.3)

    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        slot = next(iter(one.slots()[0].slots_by_primary["n1@127.0.0.1"]))
        balance = one.clustering.slots.balance
        balance.moving = (slot + 1) % 256
        assert not await one.move_slot(slot, "n2@127.0.0.1")
        assert one.slots()[0].row(slot).home == "n1@127.0.0.1"
        balance.moving = None
        await until(lambda: one.status().serving == 2 and one._member.leased())
        monkeypatch.setattr(runtime, "MOVE_S", 10)
        assert await one.move_slot(slot, "n2@127.0.0.1")
        assert "an operator moves slots" in balance._pause()

    run(tmp_path, scenario)

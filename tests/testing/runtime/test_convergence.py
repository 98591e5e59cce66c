"""Clusters of several nodes: they form, survive faults, and report the condition that they wait for."""

from __future__ import annotations

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.testing.client_errors import MqttRefused
from strogoff.testing.cluster import Cluster
from strogoff.testing.faults.packet_drops import FaultError
from strogoff.testing.runtime.convergence import copied
from strogoff.testing.runtime.node_links import Links
from tests.harness.thinning import thinned

from ..run_loop import run

MAJORITY = {f"allow_{each}_during_netsplit": "majority" for each in ("register", "publish", "subscribe", "unsubscribe")}


@pytest.mark.parametrize("links", ["memory", "grpc"])
def test_three_nodes_are_one_cluster(links: Links) -> None:
    """A subscriber of one node gets messages from the others, and nothing is left under way."""

    async def test() -> None:
        async with Cluster(3, links=links) as c:
            assert [each.sees for each in c.nodes] == ["whole"] * 3
            assert all(map(copied, c.nodes))
            rx = await c.client("rx", node=1, clean_start=False)
            await rx.subscribe("t/#", qos=2)
            for number in range(3):
                tx = await c.client(f"tx{number}", node=number)
                for qos in (1, 2):
                    await tx.publish("t/x", f"{number} {qos}", qos=qos, retain=True)
            await c.settled()
            assert [message.text for message in rx.take()] == ["0 1", "0 2", "1 1", "1 2", "2 1", "2 2"]
            late = await c.client("late", node=0)
            await late.subscribe("t/x")
            assert (await late.message()).text == "2 2"
            assert c.audit().verdict == "valid" and c.audit().delivered == 7

    run(test())


@pytest.mark.parametrize("links", thinned(["grpc", "memory"], 2))
def test_a_minority_acknowledges_nothing(links: Links) -> None:
    """The other side continues; the waiting clients are told at the heal."""

    async def test() -> None:
        async with Cluster(3, MAJORITY, links=links, pace=5) as c:
            rx = await c.client("rx", node=2, clean_start=False)
            await rx.subscribe("t", qos=1)
            await c.partition({0}, {1, 2})
            await c.sees(0, "minority")
            await c.sees({1, 2}, "majority")
            tx = await c.client("tx", node=1)
            await tx.publish("t", "1", qos=1)
            with pytest.raises(MqttRefused):
                await c.client("nobody", node=0)
            await c.heal()
            await c.whole()
            await (await c.client("nobody", node=0)).publish("t", "2", qos=1)
            await c.settled()
            assert [message.text for message in rx.take()] == ["1", "2"]
            assert c.audit().problems() == []
            assert c.faults == ["partition 0 | 1 2", "heal"]
            assert {row["type"] for row in c.rows} >= {"split.detect", "split.heal", "fault.pair_cut", "fault.end"}

    run(test())


def test_a_killed_node_comes_back() -> None:
    """Messages for its durable sessions wait, and arrive after its start: `start` returns when it serves."""

    async def test() -> None:
        async with Cluster(3, MAJORITY, pace=5) as c:
            rx = await c.client("rx", node=1, clean_start=False)
            await rx.subscribe("t", qos=1)
            await c.kill(1)
            await c.sees({0, 2}, "majority")
            await c.start(1)
            assert c[1].sees == "whole"
            assert (await rx.reconnect(1)).session_present
            tx = await c.client("tx", node=2)
            await tx.publish("t", "x", qos=1)
            assert (await rx.message()).text == "x"
            await c.settled()
            assert c.audit().problems() == []

    run(test())


def test_each_session_has_its_copies() -> None:
    """Then any node may be killed. With `queue_replicas` 1 nothing is copied."""

    async def test() -> None:
        async with Cluster(3, MAJORITY, pace=5) as c:
            rx = await c.client("rx", node=1, clean_start=False)
            await c.copied()
            shell = c[0].server.cluster
            assert shell is not None and shell.member is not None
            table = shell.member.slots
            assert {len(row.in_sync) for row in table.rows} == {2}
            shell.clustering.slots.opening.unopened[0] = "it has just arrived"
            assert not copied(c[0])
            shell.clustering.slots.opening.unopened.clear()
            primary = c.primary("rx")
            holder = table.row(slot_of("", "rx")).primary
            assert primary is not None and holder is not None and c[primary].name == holder.node
            await c.kill(primary)
            await c.sees(set(range(3)) - {primary}, "majority")
            assert (await rx.reconnect((primary + 1) % 3)).session_present
            await c.copied()
            await c.kill((primary + 1) % 3)
            await c.sees((primary + 2) % 3, "minority")  # until then it counts the copy of the killed node
            assert c.primary("rx") is None
            with pytest.raises(TimeoutError, match=r"waited 0\.1 s for copies of all slots"):
                await c.copied(0.1)
        async with Cluster(2, {**MAJORITY, "queue_replicas": 1}, pace=10) as c:
            await c.copied()

    run(test())


@pytest.mark.slow
def test_a_cluster_that_was_stopped_starts_again() -> None:
    """Without a majority a start does not wait; with the second node they serve."""

    async def test() -> None:
        async with Cluster(3, MAJORITY, pace=5) as c:
            rx = await c.client("rx", node=1, clean_start=False)
            await rx.subscribe("t", qos=1)
            for number in range(3):
                await c.kill(number)
            await c.start(1)
            assert c[1].sees == "minority"
            await c.start(2)
            await c.sees({1, 2}, "majority")
            await c.start(0)
            await c.whole()
            await rx.reconnect(1)
            tx = await c.client("tx", node=0)
            await tx.publish("t", "x", qos=1)
            assert (await rx.message()).text == "x"

    run(test())


def test_a_paused_node_leaves_the_view_and_comes_back() -> None:
    """Its lease ends during the pause; clean sessions that missed messages are closed afterwards."""

    async def test() -> None:
        async with Cluster(3, MAJORITY, pace=5) as c:
            clean = await c.client("clean", node=0)
            await clean.subscribe("t", qos=1)
            await c.pause(0)
            await c.sees({1, 2}, "majority")
            tx = await c.client("tx", node=1)
            await tx.publish("t", "x", qos=1)
            with pytest.raises(FaultError, match="node 0 is paused: the cluster cannot be whole"):
                await c.whole()
            await c.resume(0)
            await c.whole()
            assert (await clean.closed()).reason == 0x83  # type: ignore[union-attr]
            await c.settled()
            assert c.audit().problems() == []

    run(test())


def test_one_way() -> None:
    """A node that the others do not hear leaves the view, whatever it hears itself."""

    async def test() -> None:
        async with Cluster(3, MAJORITY, pace=5) as c:
            await c.one_way(2, 0)
            await c.sees({0, 1}, "majority")
            await c.heal()
            await c.whole()
            with pytest.raises(FaultError, match="two nodes are needed"):
                await c.one_way(1, 1)
            with pytest.raises(FaultError, match="on one side only"):
                await c.partition({0, 1}, {1, 2})

    run(test())


def test_a_wait_that_times_out_names_the_state() -> None:
    """The error names the present state."""

    async def test() -> None:
        async with Cluster(2) as c:
            with pytest.raises(TimeoutError, match=r"for 0 to see minority; now: node 0 whole, node 1 whole"):
                await c.sees(0, "minority", timeout=0.01)
            await c.kill(1)
            with pytest.raises(FaultError, match="node 1 is down"):
                await c.whole()

    run(test())

"""Only the streams between two nodes are cut: the ports for clients stay open, other nodes reach both.

VerneMQ does not detect such a cut; here the data streams are the evidence.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial

import pytest

from bench.cluster_nodes import Node, leader_of, until, whole

from .conftest import Apart
from .probe import Probe, moment
from .test_faults import DETECTION_S, Watch, in_time, sees_without

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]

STABLE_S = 10.0
"""So long nothing may change while a cut lasts; where less is looked at, a third of it."""


async def noticed(node: Node) -> bool:
    """Whether the node knows that the cluster is not whole."""
    return await node.sees() in ("majority", "minority")


async def detected(watch: Watch, nodes: list[Node], one: Node, other: Node) -> None:
    """Wait until the two nodes list each other as not running, and each node reports a majority or a minority."""
    waits = [
        watch.within(DETECTION_S, f"{a.name} tells", partial(sees_without, a, b))
        for a, b in ((one, other), (other, one))
    ]
    waits += [watch.within(DETECTION_S, f"{node.name} knows", partial(noticed, node)) for node in nodes]
    await asyncio.gather(*waits)


async def one_is_out(nodes: list[Node]) -> bool:
    """Whether two nodes have a lease, and the third has none."""
    return sorted([await node.sees() for node in nodes]) == ["majority", "majority", "minority"]


async def traffic(publisher: Node, subscriber: Node, stop: asyncio.Event) -> int:
    """Publish at one node until stopped, each message after the answer to the previous one; returns
    how many arrived.
    """
    reader, writer = Probe(subscriber, "reader"), Probe(publisher, "writer")
    assert (await reader.connect()).reason == 0
    assert (await writer.connect()).reason == 0
    assert await reader.subscribe("cuts/#") == 1
    sent = 0
    while not stop.is_set():
        sent += 1
        assert await writer.publish("cuts/steady", b"%d" % sent) == 0
        await moment(0.02)
    assert await reader.got(sent) == [b"%d" % n for n in range(1, sent + 1)]
    await reader.close()
    await writer.close()
    return sent


async def stable(nodes: list[Node], for_s: float) -> int:
    """Check that the view does not change for this time; returns the number of checks."""
    before = {node.name: (await node.status())["view_id"] for node in nodes}
    end, looks = time.monotonic() + for_s, 0
    while time.monotonic() < end:
        assert {node.name: (await node.status())["view_id"] for node in nodes} == before
        assert await one_is_out(nodes)
        looks += 1
        await moment(0.2)
    return looks


@pytest.mark.parametrize("kind", ["both directions", "one direction"])
def test_a_pair_is_cut(apart: Apart, kind: str) -> None:
    """The pair is two followers, or the leader and a follower: one node leaves the view, and the other two serve."""
    space, nodes, background = apart

    async def attempt(watch: Watch) -> None:
        await whole(nodes)
        for node in nodes:
            assert (await node.ask("set", "allow_publish_during_netsplit=majority")).status == 0
            assert (await node.ask("set", "allow_register_during_netsplit=majority")).status == 0
            assert (await node.ask("set", "allow_subscribe_during_netsplit=majority")).status == 0
        leader = await leader_of(nodes)
        followers = [n for n, node in enumerate(nodes, 1) if node.name != leader]
        await space.soon(space.cut if kind == "both directions" else space.cut_one_way, *followers)
        try:
            one, other = (nodes[n - 1] for n in followers)
            await detected(watch, nodes, one, other)
            await until("one is out", partial(one_is_out, nodes))
            stay = [node for node in nodes if await node.sees() == "majority"]
            assert leader in [node.name for node in stay]
            one, other = stay
            stop = asyncio.Event()
            stream = asyncio.create_task(traffic(one, other, stop))
            looks = await stable(nodes, STABLE_S)
            stop.set()
            print("looked", looks, "times; messages", await stream)
        finally:
            await space.soon(space.heal)
        await whole(nodes)

    background.run(in_time(attempt), 100)


def test_a_leader_and_one_other(apart: Apart) -> None:
    """Packets of a follower do not reach the leader; the third node reaches both. One of the two leaves the view."""
    space, nodes, background = apart

    async def attempt(watch: Watch) -> None:
        await whole(nodes)
        leader = await leader_of(nodes)
        at = [node.name for node in nodes].index(leader) + 1
        await space.soon(space.cut_one_way, at % 3 + 1, at)
        try:
            await detected(watch, nodes, nodes[at - 1], nodes[at % 3])
            await until("one is out", partial(one_is_out, nodes))
            await stable(nodes, STABLE_S / 3)
        finally:
            await space.soon(space.heal)
        await whole(nodes)

    background.run(in_time(attempt), 100)

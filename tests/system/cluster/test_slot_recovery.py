"""Two of three real nodes die with their disks, one after the other, and slots have one copy: the third recovers the
slots, and the nodes join.

The third node is the eldest, so it is the only voter when the first dead node has been taken out. If both died at once,
the cluster would have no majority, and no node could change the slot table.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from bench.cluster_nodes import Node, bad_lines, end, start_joined, start_replaced, until
from strogoff.cluster.identity import slot_of

from .probe import Probe

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(150)]

CLIENTS = [f"c{number}" for number in range(12)]


async def primaries(node: Node) -> dict[str, str]:
    """Returns client id -> the primary of its slot, or "" if the slot has none."""
    found = {}
    for name in CLIENTS:
        row = (await node.ask("slot", "show", f"slot={slot_of('', name)}")).tables[0][0]
        found[name] = str(row["Node"]) if row["State"] == "primary" else ""
    return found


async def lost(node: Node) -> list[str]:
    """Returns the clients whose slots have no primary."""
    return [name for name, primary in (await primaries(node)).items() if not primary]


async def story(nodes: list[Node]) -> None:
    first, second, third = nodes
    for number, name in enumerate(CLIENTS):
        probe = Probe(nodes[number % 3], name)
        assert (await probe.connect(clean=False)).reason == 0
        await probe.subscribe(f"t/{name}", 1)
        await probe.close()
    await third.kill()
    shutil.rmtree(third.data)
    await until("the view is without the third node", lambda: lost(first))
    answer = await first.ask("cluster", "leave", f"node={third.name}", "-k", "--accept-loss")
    assert answer.status == 0, answer
    await until("the first node is the only voter", lambda: first.whole_with(2))
    # the next entry of the log is committed only behind the one that has made it the only voter
    for target in (first, second):
        answer = await first.ask("slot", "move", f"slot={slot_of('', CLIENTS[0])}", f"node={target.name}")
        assert answer.status == 0, answer
    await second.kill()
    shutil.rmtree(second.data)
    await until("the view is without the second node", lambda: lost(first))
    waiting = await lost(first)
    refused = Probe(first, waiting[0])
    connack = await refused.connect(clean=False)
    assert connack.reason == 0x88 and second.name in str(connack.properties)
    listed = (await first.ask("slot", "recover")).tables[0]
    assert {row["Node"] for row in listed} == {second.name}
    assert (await first.ask("slot", "recover", "slot=all")).status == 1
    answer = await first.ask("slot", "recover", "slot=all", "--accept-loss")
    assert answer.status == 0 and "clients begin new sessions" in answer.text, answer
    assert (await first.ask("slot", "recover", "slot=all", "--accept-loss")).status == 0
    assert await lost(first) == []
    for name in waiting:
        probe = Probe(first, name)
        again = await probe.connect(clean=False)
        assert again.reason == 0 and not again.session_present
        await probe.subscribe(f"t/{name}", 1)
        assert await probe.publish(f"t/{name}", b"new") == 0
        assert await probe.got(1) == [b"new"]
        await probe.close()
    for node in (second, third):
        await start_replaced(node, first, 60)
    for name in waiting:
        probe = Probe(third, name)
        assert (await probe.connect(clean=False)).session_present
        assert await probe.publish(f"t/{name}", b"more") == 0
        assert await probe.got(1) == [b"more"]
        await probe.close()
    assert "slot.loss_possible" in first.log.read_text()


def test_the_slots_of_dead_nodes_are_recovered_and_the_nodes_join_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        policies = {f"allow_{what}_during_netsplit": "majority" for what in ("register", "publish", "subscribe")}
        nodes = [Node(tmp_path, f"n{n}", queue_replicas="1", **policies) for n in (1, 2, 3)]
        try:
            await start_joined(nodes)
            await story(nodes)
            assert [line for line in bad_lines(nodes) if "Traceback" in line] == []
        finally:
            await end(nodes)

    asyncio.run(asyncio.wait_for(scenario(), 140))

"""A node leaves three real nodes under load: its sessions lose nothing, also if another node is killed meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.cluster_nodes import Node, end, start_joined

from .probe import Probe, moment

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(150)]

SESSIONS = 120


async def sleeping(nodes: list[Node]) -> list[str]:
    """Make durable sessions with one filter in common, in many slots."""
    names = [f"c{number}" for number in range(SESSIONS)]
    for number, name in enumerate(names):
        probe = Probe(nodes[number % 3], name)
        assert (await probe.connect(clean=False)).reason == 0
        assert await probe.subscribe("all", 1) == 1
        await probe.close()
    return names


async def story(nodes: list[Node], kill: bool) -> None:
    names = await sleeping(nodes)
    writer = Probe(nodes[0], "writer")
    await writer.connect()
    stop = asyncio.Event()
    accepted: list[bytes] = []

    async def writes() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            await moment(0.02)
            if await writer.publish("all", b"%d" % number, within_s=60) == 0:  # else the cluster was not complete
                accepted.append(b"%d" % number)

    async def fails() -> None:
        await moment(2.0)
        await nodes[1].kill()
        await nodes[1].start()

    writing = asyncio.create_task(writes())
    failing = asyncio.create_task(fails()) if kill else None
    answer = await nodes[0].ask("cluster", "leave", f"node={nodes[2].name}", "-k", "--timeout=90")
    assert answer.status == 0 and answer.text.strip().endswith("Done"), answer
    if failing is not None:
        await failing
    stop.set()
    await writing
    assert len(accepted) > 20
    for name in names:
        reader = Probe(nodes[0], name)
        assert (await reader.connect(clean=False)).session_present
        assert await reader.got(len(accepted)) == accepted
        await reader.close()


@pytest.mark.parametrize(
    "kill",
    [pytest.param(False, marks=pytest.mark.by_hand, id="orderly"), pytest.param(True, id="another-node-is-killed")],
)
def test_the_sessions_of_a_leaving_node_lose_nothing(tmp_path: Path, kill: bool) -> None:
    async def scenario() -> None:
        nodes = [Node(tmp_path, f"n{n}") for n in (1, 2, 3)]
        try:
            await start_joined(nodes)
            await story(nodes, kill)
        finally:
            await end(nodes)

    asyncio.run(asyncio.wait_for(scenario(), 140))

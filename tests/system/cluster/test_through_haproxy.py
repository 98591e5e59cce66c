"""A durable subscriber behind HAProxy, which gives it another node each time: mosquitto_sub and mosquitto_pub."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from bench.cluster_nodes import Node, client_at, until, whole

from ..brokers import WITHIN_S, require_program, run_test
from ..mosquitto import Sub, pub
from .test_faults import serves_without
from .test_forming import MAJORITY, all_are_well, behind_haproxy

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(150)]

VERSIONS = {"mqttv311": (), "mqttv5": ("-x", "3600")}
"""Protocol version -> the options with which mosquitto_sub keeps its session."""


class Reader:
    """A durable subscriber: runs of mosquitto_sub with one client id and one protocol version."""

    def __init__(self, port: int, version: str, client_id: str) -> None:
        self.topic = f"kept/{version}"
        self.words = ["-p", str(port), "-V", version, "-i", client_id, "-c", *VERSIONS[version], "-q", "1"]
        self.words += ["-t", self.topic, "-F", "%p"]
        self.client_id = client_id
        self.to = ["-p", str(port), "-V", version, "-t", self.topic, "-q", "1"]

    async def reads(self, expected: Sequence[int], nodes: list[Node]) -> str:
        """Connect, get exactly these numbers, and leave. Returns the node that HAProxy chose."""
        sub = await Sub.start(*self.words)
        await sub.lines(len(expected))
        shown = await nodes[0].ask("session", "show", "--gateway", f"--client_id={self.client_id}")
        assert await sub.stop() == [str(number) for number in expected]
        return str(shown.tables[0][0]["gateway"])

    async def publish(self, numbers: Sequence[int]) -> None:
        """Publish these numbers, each with a connection of its own, so that they enter at all nodes."""
        for number in numbers:
            assert await pub(*self.to, "-m", str(number)) == 0

    async def is_refused(self) -> str:
        """Connect while the session cannot be served. Returns what mosquitto_sub says."""
        process = await asyncio.create_subprocess_exec(
            require_program("mosquitto_sub"), *self.words, stdout=PIPE, stderr=PIPE
        )
        output = await asyncio.wait_for(process.communicate(), WITHIN_S)
        assert process.returncode != 0
        return " ".join(part.decode() for part in output)

    async def wander(self, nodes: list[Node]) -> None:
        """Come back again and again, to what was published meanwhile."""
        gateways = [await self.reads([], nodes)]
        for turn in range(4):
            numbers = range(turn * 6, turn * 6 + 6)
            await self.publish(numbers)
            gateways.append(await self.reads(numbers, nodes))
        await self.reads([], nodes)  # CONNACK says that the disk has the last PUBACKs
        assert len(set(gateways)) > 1, gateways


async def killed(readers: list[Reader], nodes: list[Node], stats: int) -> None:
    """Kill the node with the sessions. Publishers and subscribers wait; after its restart everybody gets everything."""
    await nodes[2].kill()
    await until("the view is without it", partial(serves_without, nodes[0], nodes[2]))
    publishing = [asyncio.create_task(reader.publish(range(100, 105))) for reader in readers]
    said = await asyncio.gather(*[reader.is_refused() for reader in readers])
    assert all("unavailable" in text.lower() for text in said), said
    assert not any(task.done() for task in publishing), "nobody has the messages yet"
    await nodes[2].start()
    await whole(nodes)
    await until("HAProxy knows that all are well", partial(all_are_well, stats))
    await asyncio.gather(*publishing)
    for reader in readers:
        await reader.reads(range(100, 105), nodes)


def test_a_durable_subscriber_finds_its_session_at_any_node(tmp_path: Path) -> None:
    """In order and nothing twice. With one copy CONNECT waits while the primary is killed, and then says why."""

    async def scenario() -> None:
        async with behind_haproxy(tmp_path, queue_replicas="1", **MAJORITY) as (nodes, port, stats):
            ids = [await client_at(nodes[2], f"reader-{version}-") for version in VERSIONS]
            readers = [Reader(port, version, name) for version, name in zip(VERSIONS, ids, strict=True)]
            for reader in readers:
                await reader.wander(nodes)
            await killed(readers, nodes, stats)

    run_test(scenario())

"""A B C D E: messages arrive in order while the node of the subscriber, or the one with its session, is killed.

mosquitto_sub and mosquitto_pub, three nodes with two copies of each session behind HAProxy (P1, P2, P3).
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path

import pytest

from bench.cluster_nodes import Node, client_at, until, whole
from bench.ha_test import Slots
from strogoff.cluster.identity import slot_of

from ..brokers import run_test
from ..mosquitto import Sub, pub
from .test_forming import MAJORITY, all_are_well, behind_haproxy
from .test_through_haproxy import VERSIONS, Reader

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]

SOON_S = 5.0
"""Within this time, in seconds, the first CONNECT after a kill succeeds."""


class Story:
    """One subscriber with a session on `primary`, connected through another node, `gateway`."""

    def __init__(self, reader: Reader, nodes: list[Node], primary: Node, stats: int) -> None:
        self.reader = reader
        self.nodes = nodes
        self.primary = primary
        self.stats = stats
        self.gateway = primary

    async def tell(self, *letters: str) -> None:
        """Publish each letter with a connection of its own; mosquitto_pub ends with 0 when it has PUBACK."""
        for letter in letters:
            assert await pub(*self.reader.to, "-m", letter) == 0, letter

    async def connected_elsewhere(self) -> Sub:
        """Connect the subscriber until HAProxy chooses another node than the primary."""
        while True:
            sub = await Sub.start(*self.reader.words)
            shown = await self.primary.ask("session", "show", "--gateway", f"--client_id={self.reader.client_id}")
            name = str(shown.tables[0][0]["gateway"])
            if name != self.primary.name:
                self.gateway = next(node for node in self.nodes if node.name == name)
                return sub
            await sub.stop()

    async def two_copies(self) -> bool:
        slot = slot_of("", self.reader.client_id)
        return len(await Slots(self.nodes).holders(slot)) == 2

    async def all_is_well(self) -> None:
        await whole(self.nodes)
        await until("HAProxy knows that all are well", partial(all_are_well, self.stats))
        await until("the session has two copies", self.two_copies)

    async def with_the_death_of(self, role: str) -> None:
        """A and B arrive. A node dies. C arrives with the next connection, D too; the node is back, and E arrives."""
        await self.all_is_well()
        sub = await self.connected_elsewhere()
        victim = self.primary if role == "primary" else self.gateway
        await self.tell("A", "B")
        assert await sub.lines(2) == ["A", "B"]
        await victim.kill()
        began = time.monotonic()
        await sub.stop()
        sub = await Sub.start(*self.reader.words)
        assert time.monotonic() - began < SOON_S
        await self.tell("C", "D")
        assert await sub.lines(2) == ["C", "D"]
        await victim.start()
        await self.all_is_well()
        await self.tell("E")
        assert await sub.finish(3) == ["C", "D", "E"]
        sub = await Sub.start(*self.reader.words)
        await self.tell("F")
        assert await sub.finish(1) == ["F"], "nothing comes twice"


@pytest.mark.parametrize("role", ["gateway", "primary"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_node_dies_and_the_messages_arrive_in_order(tmp_path: Path, version: str, role: str) -> None:
    async def scenario() -> None:
        async with behind_haproxy(tmp_path, queue_replicas="2", **MAJORITY) as (nodes, port, stats):
            reader = Reader(port, version, await client_at(nodes[1], "reader-"))
            await Story(reader, nodes, nodes[1], stats).with_the_death_of(role)

    run_test(scenario())


@pytest.mark.parametrize("role", ["gateway", "primary"])
def test_by_default_clients_are_refused_until_the_node_is_back(tmp_path: Path, role: str) -> None:
    """`allow_register_during_netsplit = off`: CONNECT is refused; the message is accepted after the heal."""

    async def scenario() -> None:
        async with behind_haproxy(tmp_path, queue_replicas="2") as (nodes, port, stats):
            reader = Reader(port, "mqttv311", await client_at(nodes[1], "reader-"))
            story = Story(reader, nodes, nodes[1], stats)
            await story.all_is_well()
            sub = await story.connected_elsewhere()
            victim = story.primary if role == "primary" else story.gateway
            await story.tell("A", "B")
            assert await sub.lines(2) == ["A", "B"]
            await sub.stop()
            await victim.kill()
            assert "unavailable" in (await reader.is_refused()).lower()
            waiting = asyncio.create_task(story.tell("C", "D"))
            await victim.start()
            await story.all_is_well()
            await waiting
            sub = await Sub.start(*reader.words)
            await story.tell("E")
            assert await sub.finish(3) == ["C", "D", "E"]

    run_test(scenario())

"""A subscriber gets A B C D E in order, although a node is killed: its own, or the one that has its session (P1 to P3).

The clients are mosquitto_sub and mosquitto_pub. Three nodes with two copies of each session are behind HAProxy.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from bench.cluster_nodes import Node, client_at, start_joined, until, whole
from bench.ha_test import Slots

from ..brokers import run_test
from ..mosquitto import Sub, pub
from .test_faults import serves_without
from .test_forming import MAJORITY, all_are_well, behind_haproxy, three
from .test_through_haproxy import Reader

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]

SERVER_UNAVAILABLE = 3
"""The exit status of mosquitto_pub for this CONNACK of MQTT 3.1.1."""
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

    async def all_is_well(self) -> None:
        await whole(self.nodes)
        await until("HAProxy knows that all are well", partial(all_are_well, self.stats))
        await until("each slot has two copies", Slots(self.nodes).all_copied)

    async def with_the_death_of(self, role: str) -> None:
        """A and B arrive. A node dies. C arrives with the next connection, D too; the node is back, and E arrives.

        B may come again: its PUBACK was perhaps only at the node that died.
        """
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
        await sub.up_to("D")
        await victim.start()
        await self.all_is_well()
        await self.tell("E")
        await sub.up_to("E")
        assert await sub.stop() in (["C", "D", "E"], ["B", "C", "D", "E"])
        sub = await Sub.start(*self.reader.words)
        await self.tell("F")
        assert await sub.finish(1) == ["F"], "nothing comes twice"


@pytest.mark.parametrize("role", ["gateway", "primary"])
@pytest.mark.parametrize("version", [pytest.param("mqttv311", marks=pytest.mark.by_hand), "mqttv5"])
def test_a_node_dies_and_the_messages_arrive_in_order(tmp_path: Path, version: str, role: str) -> None:
    async def scenario() -> None:
        async with behind_haproxy(tmp_path, **MAJORITY) as (nodes, port, stats):
            reader = Reader(port, version, await client_at(nodes[1], "reader-"))
            await Story(reader, nodes, nodes[1], stats).with_the_death_of(role)

    run_test(scenario())


@pytest.mark.parametrize("role", ["gateway", "primary"])
def test_by_default_clients_are_refused_until_the_node_is_back(tmp_path: Path, role: str) -> None:
    """`allow_register_during_netsplit = off`: each CONNECT is refused. Afterwards everything arrives in order."""

    async def scenario() -> None:
        async with three(tmp_path) as nodes:
            await start_joined(nodes)
            gateway, primary, third = nodes
            client_id = await client_at(primary, "reader-")
            first, later = Reader(gateway.port, "mqttv311", client_id), Reader(third.port, "mqttv311", client_id)
            await until("each slot has two copies", Slots(nodes).all_copied)
            sub = await Sub.start(*first.words)
            for letter in "AB":
                assert await pub(*later.to, "-m", letter) == 0
            assert await sub.finish(2) == ["A", "B"]
            victim = primary if role == "primary" else gateway
            await victim.kill()
            await until("the view is without it", partial(serves_without, third, victim))
            assert "unavailable" in (await later.is_refused()).lower()
            assert await pub(*later.to, "-m", "refused") == SERVER_UNAVAILABLE
            await victim.start()
            await whole(nodes)
            for letter in "CDE":
                assert await pub(*later.to, "-m", letter) == 0
            sub = await Sub.start(*later.words)
            await sub.up_to("E")
            assert await sub.stop() in (["C", "D", "E"], ["B", "C", "D", "E"])

    run_test(scenario())

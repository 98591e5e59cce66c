"""HAProxy chooses the node by the client identifier: it remembers the last one (sticky.cfg), or has a map of slots
(slots.cfg)."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.cluster_nodes import Node, until, whole
from bench.haproxy import HAProxy, write_slot_map
from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from strogoff.mqtt.decoder import Decoder
from strogoff.mqtt.encoder import encode

from ..brokers import WITHIN_S, run_test
from ..mosquitto import Sub, pub
from .proxied import behind, sessions

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(150)]

BOTH = pytest.mark.parametrize("name", [pytest.param("sticky", marks=pytest.mark.by_hand), "slots"])
CONNECTED_S = 15.0
"""How long a CONNECT may take after the death of a node: the gateway waits up to 10 s for a primary."""

INSPECT_S = 2.0
"""The inspect-delay of the configurations."""
REFUSED = b"\x20\x02\x00\x01"
"""CONNACK: unacceptable protocol version."""


class Client:
    """A connection through HAProxy that sends CONNECT in the given pieces, each when `go_on` is called."""

    def __init__(self, client_id: str, version: int = 4, clean: bool = True, **fields: Any) -> None:
        self.client_id = client_id
        self.version = version
        if version == 5 and not clean:
            fields["properties"] = {"session_expiry_interval": 3600}
        self.bytes = encode(packets.Connect(client_id, version, clean, **fields), version)
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def open(self, port: int, until_byte: int | None = None) -> None:
        """Connect, and send the first bytes of CONNECT; None: all of it."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        self._writer.write(self.bytes[:until_byte])
        await self._writer.drain()

    async def go_on(self, from_byte: int) -> None:
        """Send the rest."""
        self._writer.write(self.bytes[from_byte:])
        await self._writer.drain()

    async def connack(self) -> int:
        """Returns the code of CONNACK, -1 if the connection ended without one."""
        decoder = Decoder("client", self.version)
        with suppress(ConnectionError):
            while data := await asyncio.wait_for(self._reader.read(1 << 16), WITHIN_S):
                for packet in decoder.feed(data):
                    assert isinstance(packet, packets.Connack)
                    return int(packet.reason)
        return -1

    def close(self) -> None:
        """End the connection without a DISCONNECT."""
        self._writer.close()


async def connected(port: int, clients: Sequence[Client]) -> None:
    """Connect the clients, one after the other. Each tries again until a node accepts it: a node may just have died."""
    for client in clients:

        async def accepted(client: Client = client) -> bool:
            await client.open(port)
            if await client.connack() == 0:
                return True
            client.close()
            return False

        await until(f"{client.client_id} is accepted", accepted, CONNECTED_S, 0.2)


async def part(node: Node, clients: Sequence[Client]) -> None:
    """Disconnect them, and wait until no node has them."""
    for client in clients:
        client.close()

    async def gone() -> bool:
        return not {client.client_id for client in clients} & set(await sessions(node))

    await until("the clients are gone", gone)


async def gateways(node: Node) -> dict[str, str]:
    """Client identifier -> the node to which it is connected."""
    found = await sessions(node, "node", "gateway")
    return {client_id: str(row["gateway"] or row["node"]) for client_id, row in found.items()}


def of_all_versions() -> list[Client]:
    """Durable clients: identifiers with letters of any kind, some with a will, and one with a long CONNECT."""
    found = [Client(f"v{version}-{n}", version, clean=False) for version in (3, 4, 5) for n in range(4)]
    found += [Client(name, 4, clean=False) for name in ("grün", "with space", "a/b", "%00", "x" * 100, "日本語")]
    found += [Client("user", 4, clean=False, username="u" * 300, password=b"\0" * 300)]
    found += [Client("will", 4, clean=False, will=packets.Will("t", b"w" * 8000, 1, False))]
    return found


@BOTH
def test_a_client_identifier_has_its_node(name: str, tmp_path: Path) -> None:
    """All versions of MQTT, in one piece and in two, after other clients have come and gone. mosquitto, too."""

    async def scenario() -> None:
        async with behind(tmp_path, name) as (nodes, proxy):
            first = of_all_versions()
            await connected(proxy.port, first)
            places = await gateways(nodes[0])
            assert len(places) == len(first)
            assert len(set(places.values())) == 3
            if name == "slots":
                rows = await sessions(nodes[0], "node", "gateway")
                assert {client: row["node"] for client, row in rows.items()} == places
            await part(nodes[0], first)
            for cut in (1, 9, 20):
                again = of_all_versions()[:: -1 if cut == 9 else 1]
                for client in again:
                    await client.open(proxy.port, cut)
                for client in again:
                    await client.go_on(cut)
                    assert await client.connack() == 0
                assert await gateways(nodes[0]) == places
                await part(nodes[0], again)
            for version in ("mqttv31", "mqttv311", "mqttv5"):
                to = ["-p", str(proxy.port), "-V", version]
                sub = await Sub.start(*to, "-i", "v4-1", "-c", "-q", "1", "-t", "t")
                assert (await gateways(nodes[0]))["v4-1"] == places["v4-1"]
                assert await pub(*to, "-t", "t", "-m", version, "-q", "1") == 0
                assert version in await sub.finish(1)

    run_test(scenario())


@BOTH
def test_without_a_usable_identifier_a_client_is_served_all_the_same(name: str, tmp_path: Path) -> None:
    """An empty identifier: not all at one node. A CONNECT that is longer than HAProxy's buffer, and one of a bridge:
    at once. What is no CONNECT gets to a node, which refuses it, and silence ends within the node's bound."""

    async def scenario() -> None:
        async with behind(tmp_path, name) as (nodes, proxy):
            loop = asyncio.get_running_loop()
            empty = [Client("", version) for version in (4, 5) for _ in range(6)]
            began = loop.time()
            for client in empty:
                await client.open(proxy.port)
                assert await client.connack() == 0
            assert loop.time() - began < INSPECT_S
            spread = Counter((await gateways(nodes[0])).values())
            assert spread == {node.name: 4 for node in nodes}
            for client in empty:
                client.close()
            large = Client("large", 4, will=packets.Will("t", b"w" * 40_000, 0, False))
            for client, answer in ((large, 0), (Client("b3", 3, bridge=True), 0), (Client("b4", 4, bridge=True), 1)):
                for cut in (8, 30_000):
                    began = loop.time()
                    await client.open(proxy.port, cut)
                    await client.go_on(cut)
                    assert await client.connack() == answer  # bridges of 3.1.1 are refused by default
                    client.close()
                    assert loop.time() - began < INSPECT_S
            for data in (
                b"GET / HTTP/1.1\r\n\r\n",
                b"\x10\xff\xff\xff\xff\x01",
                b"\x10\x0c\0\4MQTX\4\2\0\x3c\0\0",
                b"\x10",
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
                writer.write(data)
                with suppress(ConnectionError):
                    said = await asyncio.wait_for(reader.read(), WITHIN_S)
                    assert said in (b"", REFUSED)
                writer.close()

    run_test(scenario())


@BOTH
def test_the_clients_of_a_dead_node_spread_over_the_others(name: str, tmp_path: Path) -> None:
    """With sticky.cfg they stay there when the node is back. With slots.cfg they return to it. The others never
    move."""

    async def scenario() -> None:
        async with behind(tmp_path, name) as (nodes, proxy):
            clients = [Client(f"d-{number}", 4, clean=False) for number in range(24)]
            await connected(proxy.port, clients)
            places = await gateways(nodes[0])
            lost = {client_id for client_id, node in places.items() if node == nodes[1].name}
            assert lost
            await part(nodes[0], clients)
            await nodes[1].kill()
            await until("HAProxy finds it dead", partial(proxy.is_down, 2))
            await connected(proxy.port, clients)
            meanwhile = await gateways(nodes[0])
            assert {client: meanwhile[client] for client in places.keys() - lost} == {
                client: places[client] for client in places.keys() - lost
            }
            assert {meanwhile[client] for client in lost} == {nodes[0].name, nodes[2].name}
            await part(nodes[0], clients)
            await connected(proxy.port, clients)
            if name == "sticky":
                assert await gateways(nodes[0]) == meanwhile
            await part(nodes[0], clients)
            await nodes[1].start()
            await whole(nodes)
            await until("HAProxy finds it well", partial(proxy.is_up, 2))
            await connected(proxy.port, clients)
            assert await gateways(nodes[0]) == (meanwhile if name == "sticky" else places)
            await part(nodes[0], clients)

    run_test(scenario())


def test_a_slot_map_that_is_not_true_costs_only_relays(tmp_path: Path) -> None:
    """Each line names another node than the primary: all clients are served, through gateways. The right map, read by
    a new process, brings them to their primaries."""

    async def scenario() -> None:
        async with behind(tmp_path, "slots") as (nodes, proxy):
            file = tmp_path / "slots.map"
            right = file.read_text()
            names = re.findall(r"^(\d+) (\w+)$", right, re.MULTILINE)
            assert len(names) == 256
            others = {"node1": "node2", "node2": "node3", "node3": "nobody"}
            file.write_text("".join(f"{slot} {others[server]}\n" for slot, server in names))
            await again(proxy)
            clients = [Client(f"m-{number}", 4, clean=False) for number in range(12)]
            await connected(proxy.port, clients)
            rows = await sessions(nodes[0], "node", "gateway")
            primaries = {client.client_id: dict(names)[str(slot_of("", client.client_id))] for client in clients}
            assert {client: row["node"][:2] for client, row in rows.items()} == {
                client: server.replace("node", "n") for client, server in primaries.items()
            }
            for client, server in primaries.items():
                if server != "node3":
                    assert rows[client]["gateway"].startswith(others[server].replace("node", "n"))
            await part(nodes[0], clients)
            await write_slot_map(nodes, file)
            assert file.read_text() == right
            await again(proxy)
            await connected(proxy.port, clients)
            rows = await sessions(nodes[0], "node", "gateway")
            assert {row["gateway"] or row["node"] for row in rows.values()} == {row["node"] for row in rows.values()}
            assert all((row["gateway"] or row["node"]) == row["node"] for row in rows.values())
            await part(nodes[0], clients)

    run_test(scenario())


async def again(proxy: HAProxy) -> None:
    """A new process, which reads the files again."""
    await proxy.stop()
    await proxy.start()

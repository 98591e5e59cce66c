"""deploy/haproxy/mqtt.cfg in front of three nodes: who is sent where, and what a node that fails changes."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from bench.cluster_nodes import Node, until, whole
from bench.haproxy import HAProxy

from ..brokers import run_test
from ..mosquitto import pub
from ..paho_client import Paho
from .proxied import behind, sessions

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(150)]

NOTICED_S = 4.0
"""The bound in the configuration: two checks, one second apart, each with a second for its answer."""


def connected(port: int, count: int, prefix: str, **options: str) -> list[Paho]:
    """Clients that stay connected."""
    clients = [Paho(None, f"{prefix}{number}", 5, port=port, **options) for number in range(count)]
    for client in clients:
        client.__enter__()
    return clients


def part(clients: list[Paho]) -> None:
    for client in clients:
        client.__exit__()


async def gateways(node: Node) -> Counter[str]:
    """Node -> number of the clients that are connected to it."""
    found = await sessions(node, "node", "gateway")
    return Counter(str(row["gateway"] or row["node"]) for row in found.values())


async def accepted(proxy: HAProxy, count: int) -> None:
    """Check that this number of clients, one after the other, is accepted by HAProxy and a node, each at once."""
    for number in range(count):
        assert await pub("-p", str(proxy.port), "-i", f"late-{number}", "-t", "late", "-m", "x", "-q", "1") == 0


def test_each_client_is_at_the_node_with_the_fewest(tmp_path: Path) -> None:
    """Clients connect with MQTT and with MQTT over WebSocket, and the nodes know their addresses. HAProxy also starts
    when the name of a fourth node has no address yet."""

    async def scenario() -> None:
        async with behind(tmp_path, "mqtt", variables={"STROGOFF_NODE4": "node4.invalid"}) as (nodes, proxy):
            plain = await asyncio.to_thread(connected, proxy.port, 6, "plain-")
            assert await gateways(nodes[0]) == {node.name: 2 for node in nodes}
            browsers = await asyncio.to_thread(partial(connected, proxy.websocket, 3, "ws-", transport="ws"))
            assert await gateways(nodes[0]) == {node.name: 3 for node in nodes}
            shown = await sessions(nodes[0], "peer_host", "peer_port")
            for client in plain:
                address = client.local_address()
                row = shown[client.client._client_id.decode()]
                assert (row["peer_host"], row["peer_port"]) == address
            assert {shown[f"ws-{number}"]["peer_host"] for number in range(3)} == {"127.0.0.1"}
            await asyncio.to_thread(part, plain + browsers)

    run_test(scenario())


def test_a_killed_node_gets_no_more_clients(tmp_path: Path) -> None:
    """Its clients lose their connections at once. When it is back, it gets clients again."""

    async def scenario() -> None:
        async with behind(tmp_path, "mqtt") as (nodes, proxy):
            clients = await asyncio.to_thread(connected, proxy.port, 3, "c-")
            noticed = asyncio.create_task(until("HAProxy finds it dead", partial(proxy.is_down, 2)))
            await nodes[1].kill()
            await asyncio.to_thread(lambda: [client.gone.wait(1) for client in clients])
            assert sum(client.gone.is_set() for client in clients) == 1
            await until("the view is without it", partial(_without, nodes[0]))
            await accepted(proxy, 4)
            assert await noticed < NOTICED_S
            assert "DOWN" in proxy.log.read_text()
            before = (await proxy.rows())["node2"]["stot"]
            await accepted(proxy, 4)
            assert (await proxy.rows())["node2"]["stot"] == before
            await asyncio.to_thread(part, clients)
            await nodes[1].start()
            await whole(nodes)
            await until("HAProxy finds it well", partial(proxy.is_up, 2))
            again = await asyncio.to_thread(connected, proxy.port, 6, "again-")
            assert (await gateways(nodes[0]))[nodes[1].name] == 2
            await asyncio.to_thread(part, again)

    run_test(scenario())


async def _without(node: Node) -> bool:
    return (await node.status()).get("serving") == 2


def test_a_node_that_stops_gets_no_new_clients_while_it_still_serves(tmp_path: Path) -> None:
    """One node is dead. Without the second the third would be no majority, so it serves on after SIGTERM."""

    async def scenario() -> None:
        async with behind(tmp_path, "mqtt") as (nodes, proxy):
            await nodes[2].kill()
            await until("the view is without it", partial(_without, nodes[0]))
            await until("HAProxy finds it dead", partial(proxy.is_down, 3))
            nodes[1].signal(signal.SIGTERM)
            took = await until("HAProxy finds it stopping", partial(proxy.is_down, 2))
            assert took < NOTICED_S
            process = nodes[1].process
            assert process is not None and process.returncode is None
            before = (await proxy.rows())["node2"]["stot"]
            clients = await asyncio.to_thread(connected, proxy.port, 4, "c-")
            assert process.returncode is None, "it still serves"
            assert await gateways(nodes[0]) == {nodes[0].name: 4}
            assert (await proxy.rows())["node2"]["stot"] == before
            await asyncio.to_thread(part, clients)
            assert await asyncio.wait_for(process.wait(), 30) == 0

    run_test(scenario())


def test_a_node_in_a_minority_gets_no_new_clients(tmp_path: Path) -> None:
    """Two of three hang. HAProxy sends nobody to the third, which would refuse them, and ends the connections of new
    clients itself. When the others go on, all three get clients."""

    async def scenario() -> None:
        async with behind(tmp_path, "mqtt") as (nodes, proxy):
            for node in nodes[1:]:
                node.signal(signal.SIGSTOP)
            for number in (2, 3):
                assert await until(f"node {number} is down", partial(proxy.is_down, number)) < NOTICED_S
            await until("the first knows that it is alone", partial(proxy.is_down, 1))
            before = (await proxy.rows())["node1"]["stot"]
            assert await pub("-p", str(proxy.port), "-t", "late", "-m", "x", "-q", "1") != 0
            assert (await proxy.rows())["node1"]["stot"] == before
            for node in nodes[1:]:
                node.signal(signal.SIGCONT)
            for number in (1, 2, 3):
                await until(f"node {number} is up", partial(proxy.is_up, number))
            await whole(nodes)
            clients = await asyncio.to_thread(connected, proxy.port, 3, "c-")
            assert len(await gateways(nodes[0])) == 3
            await asyncio.to_thread(part, clients)

    run_test(scenario())

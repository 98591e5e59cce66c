"""Relayed clients over real sockets: two servers, gRPC and a data connection between them."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from strogoff.broker.process.server import Server
from strogoff.configs import load
from strogoff.testing.client import Client
from tests.harness.waiting import until

from .relay_harness import Table


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def start(folder: Path, name: str, log: list[str]) -> tuple[Server, str]:
    address = f"127.0.0.1:{free_port()}"
    wanted = {
        "nodename": f"{name}@127.0.0.1",
        "listener.tcp.default": "127.0.0.1:0",
        "listener.ws.default": "127.0.0.1:0",
        "listener.vmq.default": address,
        "allow_anonymous": "on",
        "systree_enabled": "off",
        "platform_data_dir": str(folder / name),
        "distributed_cookie": "a test",
    }
    server = Server(load(None, {}, wanted), lambda level, text: log.append(f"{level}: {text}"))
    await server.start()
    return server, address


async def scenario(folder: Path) -> None:
    log: list[str] = []
    first, address = await start(folder, "n1", log)
    second, _ = await start(folder, "n2", log)
    servers = [first, second]
    clients: list[Client] = []
    try:
        for server in servers:
            assert server.cluster is not None
        await second.cluster.join(address, False)  # type: ignore[union-attr]
        nodes = [server.node for server in servers]
        links = first.cluster._member.links  # type: ignore[union-attr]
        await until(lambda: len(links._out) == 1 and next(iter(links._out.values())).tunnel.open)
        for node in nodes:
            node.relay_by(Table(nodes[1].name))
        port = first.listeners.show()[0].port
        for client_id in ("sub", "pub"):
            client = Client(client_id, port=port, session_expiry=600)
            clients.append(client)
            await client.connect()
        sub, pub = clients
        await sub.subscribe("t/#", 1)
        assert nodes[0].gateways.counts["relayed_connections"] == 2
        assert nodes[1].gateways.counts["relayed_sessions"] == 2 and len(nodes[0].sessions) == 0
        sizes = [10, 1000, 100_000, 3_000_000, *range(200)]
        await asyncio.gather(*[pub.publish("t/1", bytes(size), 1) for size in sizes])
        got = [len((await sub.message()).payload) for _ in sizes]
        assert got == sizes
        again = Client("sub", port=port)
        clients.append(again)
        await again.connect()
        goodbye = await sub.closed()
        assert goodbye is not None and goodbye.reason == 0x8E
        for client in (again, pub):
            await client.disconnect()
        await until(lambda: not any(nodes[1].gateways.counts.values()))
        assert not [line for line in log if line.startswith("error")]
    finally:
        for client in clients:
            client.abort()
        for server in reversed(servers):
            await server.stop()


def test_two_servers(tmp_path: Path) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scenario(tmp_path)

    asyncio.run(bounded())

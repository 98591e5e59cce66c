"""Real servers in one process, on a network in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.steady import SteadyClient
from strogoff.broker.clustering.runtime import ClusterRuntime
from strogoff.broker.process.server import Server
from strogoff.cluster.identity import SLOTS, slot_of
from strogoff.cluster.ports import Settings as ClusterSettings
from strogoff.cluster.slots.placement import wanted
from strogoff.cluster.transport.memory_asyncio import AsyncioMemoryTransport, memory_network
from strogoff.cluster.transport.memory_network import MemoryNetwork
from strogoff.configs import load
from strogoff.testing.runtime.time_scale import scaled
from tests.harness.loop_errors import collect_loop_errors
from tests.harness.waiting import until


def quick(settings: ClusterSettings) -> ClusterSettings:
    """Returns the settings with all times divided by five: a lease of 340 ms."""
    return scaled(settings, 5, 3)


class ServersInMemory:
    """Servers n1, n2, n3 on one network in memory. `start` starts one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.network: MemoryNetwork = memory_network(0.4, 0.4)
        self.servers: dict[str, Server] = {}
        self.log: dict[str, list[str]] = {}
        self.clients: list[SteadyClient] = []

    async def start(self, name: str, **settings: str) -> ClusterRuntime:
        lines = self.log.setdefault(name, [])
        wanted = {
            "nodename": f"{name}@127.0.0.1",
            "listener.tcp.default": "127.0.0.1:0",
            "listener.vmq.default": f"127.0.0.1:{44000 + int(name[1:])}",
            "allow_anonymous": "on",
            "systree_enabled": "off",
            "platform_data_dir": str(self.folder / name),
            **{key.replace("__", "."): value for key, value in settings.items()},
        }
        server = self.servers[name] = Server(
            load(None, {}, wanted),
            lambda level, text: lines.append(f"{level}: {text}"),
            AsyncioMemoryTransport(self.network, name),
            quick,
        )
        await server.start()
        assert server.cluster is not None
        return server.cluster

    async def stop(self, name: str) -> None:
        await self.servers.pop(name).stop()

    async def client(self, name: str, client_id: str, clean: bool = True) -> SteadyClient:
        made = SteadyClient(client_id, self.servers[name].listeners.show()[0].port, 4)
        self.clients.append(made)  # the event loop holds tasks weakly: Python would collect an unreferenced client
        await made.connect(clean)
        return made


def run(folder: Path, scenario: Callable[[ServersInMemory], Awaitable[None]]) -> ServersInMemory:
    """Run a scenario within 40 seconds. Fails if the event loop reports an error."""
    complaints: list[dict[str, Any]] = []

    async def main() -> ServersInMemory:
        collect_loop_errors(complaints)
        harness = ServersInMemory(folder)
        try:
            async with asyncio.timeout(40):
                await scenario(harness)
        finally:
            for name in list(harness.servers):
                await harness.stop(name)
            for client in harness.clients:
                await client.abort()
        return harness

    harness = asyncio.run(main())
    assert not complaints, complaints
    return harness


async def said(
    shell: ClusterRuntime, node: str, kill: bool = True, accept_loss: bool = False, timeout_s: float = 10.0
) -> list[str]:
    """The lines of `cluster leave`."""
    return [line async for line in shell.leave(node, kill, 0.0, timeout_s, accept_loss)]


async def id_at(runtime: ClusterRuntime, node: str) -> str:
    """Returns a client id whose slot belongs to this node, when all slots are where they should be."""
    assert runtime.member is not None
    names = dict.fromkeys(runtime.member.view.serving, "")
    count = sum(wanted(slot, names, 1) == (node,) for slot in range(SLOTS))
    await until(lambda: len(runtime.slots()[0].slots_by_primary.get(node, ())) == count)
    ids = [f"c{number}" for number in range(99)]
    return next(each for each in ids if wanted(slot_of("", each), names, 1) == (node,))

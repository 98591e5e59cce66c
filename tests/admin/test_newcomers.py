"""Settings of a node that was alone, when it joins other nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from strogoff.admin.server import AdminServer
from strogoff.broker.process.server import Server
from strogoff.cluster.transport.memory_asyncio import AsyncioMemoryTransport, memory_network
from strogoff.cluster.transport.memory_network import MemoryNetwork
from strogoff.configs import load
from strogoff.testing.runtime.time_scale import scaled
from tests.admin.server_harness import ServerHarness

LIMIT = "max_inflight_messages"


class Linked(ServerHarness):
    """A node of several in this process, with links to the others unless `network` is None."""

    def __init__(self, directory: Path, name: str, network: MemoryNetwork | None, **overrides: str) -> None:
        place = f"127.0.0.1:{ord(name)}"
        way = {"listener.vmq.default": place} if network is not None else {}
        super().__init__(directory / name, {"nodename": f"{name}@127.0.0.1", **way, **overrides})
        self.network = network
        self.place = place

    async def start(self) -> None:
        """Start the node with its transport."""
        transport = None if self.network is None else AsyncioMemoryTransport(self.network, "127.0.0.1")
        self.server = Server(
            load(None, {}, self.overrides),
            lambda level, line: self.lines.append(f"{level} {line}"),
            transport,
            lambda settings: scaled(settings, 4, 2),
        )
        self.service = AdminServer()
        await self.server.start()
        await self.service.start(self.server)

    @property
    def limit(self) -> int:
        """Returns the setting that these tests change."""
        return self.server.node.env.options.max_inflight_messages


@asynccontextmanager
async def opened(harness: Linked) -> AsyncIterator[Linked]:
    harness.directory.mkdir(exist_ok=True)
    async with asyncio.timeout(30):
        await harness.start()
        try:
            yield harness
        finally:
            await harness.stop()


async def _alone_then_joined(tmp_path: Path) -> None:
    async with opened(Linked(tmp_path, "a", None)) as alone:
        await alone.good("set", f"{LIMIT}=3")
        await alone.good("set", "retry_interval=9", "--all")
        key = (await alone.good("api-key", "create", "scope=status")).out.strip()
    network = memory_network()
    async with opened(Linked(tmp_path, "a", network)) as a:
        assert (a.limit, a.server.node.env.options.retry_interval_s) == (3, 9)
        assert a.context.api_keys.check(key, "status") == "ok"
        store = a.server.store
        assert store.scan(b"nset.", b"nset/") == store.scan(b"nkey.", b"nkey/") == []
        async with opened(Linked(tmp_path, "b", network)) as b:
            assert b.context.api_keys.check(key, "status") == "unknown"
            await b.good("cluster", "join", f"discovery-node={a.place}")
            assert (b.limit, b.server.node.env.options.retry_interval_s) == (20, 9)
            assert b.context.api_keys.check(key, "status") == "ok"
            (row,) = (await b.good("show", LIMIT, "--node=a@127.0.0.1", "--format=json")).table
            assert row == {"node": "a@127.0.0.1", LIMIT: "3"}
            await b.good("config", "reset", "--key=retry_interval", "--global")
            assert a.server.node.env.options.retry_interval_s == 20
            await b.good("set", f"{LIMIT}=4", "--node=a@127.0.0.1")
            assert a.limit == 4
    async with opened(Linked(tmp_path, "a", network)) as a:
        assert (a.limit, a.server.node.env.options.retry_interval_s) == (4, 20)


def test_a_joining_node_keeps_its_settings_and_gets_those_of_the_cluster(tmp_path: Path) -> None:
    asyncio.run(_alone_then_joined(tmp_path))

"""Nodes of a cluster as processes on this machine, with the results of vmq-admin."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from strogoff.admin.client import UnixSocketClient, Unreachable
from strogoff.admin.result import Table
from strogoff.admin.wire import TruncatedResult, from_lines

from .broker_process import BrokerProcess, free_port

LOOK_S = 0.05
"""The interval between two checks of a condition, in seconds."""


class ClusterNode(BrokerProcess):
    """One node. `meet` sets the nodes that it discovers."""

    def __init__(self, folder: Path, name: str, **settings: str) -> None:
        super().__init__(folder / name, free_port(), **settings)
        self.name = f"{name}@127.0.0.1"
        self.address = f"127.0.0.1:{free_port()}"
        self.settings = {"nodename": self.name, "listener.vmq.c": self.address, **self.settings}

    def meet(self, nodes: Sequence[ClusterNode]) -> None:
        """Discover these nodes at the next start."""
        self.settings["discovery.nodes"] = ",".join(node.address for node in nodes)

    @property
    def pid(self) -> int:
        """The id of the process, which must run."""
        assert self.process is not None
        return self.process.pid

    async def status(self) -> dict[str, Any]:
        """Returns the result of `vmq-admin cluster status`; empty if the node does not answer."""
        try:
            rows = await self.admin("cluster", "status", within_s=5)
        except (TimeoutError, Unreachable, TruncatedResult):
            return {}
        return {str(key): value for key, value, *_ in rows}

    async def admin(self, *command: str, within_s: float = 90) -> list[list[Any]]:
        """Returns the rows of a command of vmq-admin, none if it fails. Raises `TimeoutError`, `Unreachable`,
        `TruncatedResult`."""
        socket = self.data / "admin.sock"
        return await asyncio.wait_for(asyncio.to_thread(_ask, self.name, socket, list(command)), within_s)

    async def whole(self, count: int) -> bool:
        """Whether the node sees a whole cluster of `count` members that all serve."""
        status = await self.status()
        return (status.get("sees"), status.get("members"), status.get("serving")) == ("whole", count, count)

    async def settled(self) -> bool:
        """Whether no slot of this node should move: a move closes the connections of the slot's clients."""
        status = await self.status()
        return not status.get("slots_misplaced") and str(status.get("balance", "off")).startswith(("balanced", "off"))


def _ask(name: str, socket: Path, command: list[str]) -> list[list[Any]]:
    parts, _ = from_lines(UnixSocketClient(name, socket).run(command))
    table = next((part for part in parts if isinstance(part, Table)), None)
    return [] if table is None else [list(row) for row in table.rows]


async def until(what: str, true: Callable[[], Awaitable[bool]], within_s: float) -> float:
    """Check the condition again and again until it is true. Returns the seconds that it took; raises `TimeoutError`."""
    began = time.monotonic()
    while not await true():
        if time.monotonic() - began > within_s:
            raise TimeoutError(f"not within {within_s:g} s: {what}")
        await asyncio.sleep(LOOK_S)
    return time.monotonic() - began


async def start_cluster(nodes: Sequence[ClusterNode]) -> None:
    """Start the nodes, and wait until each sees all others serve and has the slots that it should have."""
    for node in nodes:
        node.meet(nodes)
    await asyncio.gather(*[node.start() for node in nodes])
    for node in nodes:
        await until(f"{node.name} sees all", lambda node=node: node.whole(len(nodes)), 60)  # type: ignore[misc]
    for node in nodes:
        await until(f"the slots of {node.name} are in their places", node.settled, 60)


async def pin(pid: int, cores: int | str) -> None:
    """Keep all threads of a process on one core, or on some: "0,1"."""
    quiet = asyncio.subprocess.DEVNULL
    done = await asyncio.create_subprocess_exec("taskset", "-a", "-p", "-c", str(cores), str(pid), stdout=quiet)
    if await done.wait():
        raise RuntimeError(f"taskset cannot pin process {pid} to core {cores}")

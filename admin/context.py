"""The objects that a command may use: server, cluster, HTTP listeners, API keys, and a scheduler for long work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..broker.clustering.operator_port import OperatorPort
from ..broker.process.server import Server

if TYPE_CHECKING:
    from ..broker.node import Node
    from .api_keys import ApiKeys
    from .http_listeners import HttpListeners
    from .metrics import Metrics

TIME_SLICE_S = 0.005
"""Seconds for which a command may work before other tasks of the event loop run."""
COMMIT_S = 10.0
"""Time limit for a commit, in seconds."""


class Context:
    """The node as commands see it. All methods belong to the thread of the node's event loop."""

    def __init__(self, server: Server, http: HttpListeners, metrics: Metrics, api_keys: ApiKeys) -> None:
        self.server = server
        self.http = http
        self.metrics = metrics
        self.api_keys = api_keys
        self.membership_change = ""
        """The `cluster join` or `cluster leave` that runs at this node; empty if there is none."""
        self._loop = asyncio.get_running_loop()

    @property
    def node(self) -> Node:
        """The broker core."""
        return self.server.node

    @property
    def cluster(self) -> OperatorPort | None:
        """The cluster port of this node; None if no `listener.vmq` or `listener.vmqs` is configured."""
        return self.server.cluster

    def time_slice(self) -> TimeSlice:
        """A scheduler for one long piece of work."""
        return TimeSlice(self._loop.time)

    async def committed(self) -> None:
        """Wait until all writes are durable on this node. TimeoutError after `COMMIT_S` seconds."""
        await self._wait(self.node.env.store.flush)

    async def safe(self) -> None:
        """Wait until all writes are durable on this node and in every copy in sync. TimeoutError after `COMMIT_S`."""
        await self._wait(self.node.env.store.when_all_safe)

    async def _wait(self, when: Callable[[Callable[[], None]], None]) -> None:
        done = asyncio.Event()
        when(done.set)
        async with asyncio.timeout(COMMIT_S):
            await done.wait()

    @property
    def delay(self) -> str:
        """The probable cause of a wait for the disk or for copies that has taken too long."""
        if self.node.env.store.detail:
            return self.node.env.store.detail
        status = None if self.cluster is None else self.cluster.status()
        if status is not None and status.sees == "minority":
            return f"this node has no lease: {status.no_lease or 'no majority of its cluster has renewed it'}"
        return "a disk or a copy is slow"

    async def replicated(self) -> None:
        """`committed`, then wait until every node of the view has the writes. Raises `ClusterError` after a timeout."""
        await self.committed()
        if self.cluster is not None:
            await self.cluster.spread()


class TimeSlice:
    """Cooperative scheduling: a long command awaits `yield_if_due` between its steps. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = clock()

    async def yield_if_due(self) -> None:
        """Let the event loop run if this command has worked for `TIME_SLICE_S` seconds."""
        if self._clock() - self._since >= TIME_SLICE_S:
            await asyncio.sleep(0)
            self._since = self._clock()

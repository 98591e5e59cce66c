"""What a command may use: the server, the cluster, the HTTP listeners, and a way to let others in between."""

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
"""How long a command may work before the loop gets its turn."""
COMMIT_S = 10.0


class Context:
    """The node as commands see it; belongs to the node's event loop."""

    def __init__(self, server: Server, http: HttpListeners, metrics: Metrics, api_keys: ApiKeys) -> None:
        self.server = server
        self.http = http
        self.metrics = metrics
        self.api_keys = api_keys
        self.membership_change = ""
        """The `cluster join` or `cluster leave` that is under way here, empty if there is none."""
        self._loop = asyncio.get_running_loop()

    @property
    def node(self) -> Node:
        """The broker core."""
        return self.server.node

    @property
    def cluster(self) -> OperatorPort | None:
        """The node's part in the cluster, None while it is alone."""
        return self.server.cluster

    def time_slice(self) -> TimeSlice:
        """For one long piece of work: see `TimeSlice`."""
        return TimeSlice(self._loop.time)

    async def committed(self) -> None:
        """Wait until what was changed is safe. TimeoutError if the disk does not take it."""
        done = asyncio.Event()
        self.node.env.store.flush(done.set)
        async with asyncio.timeout(COMMIT_S):
            await done.wait()

    async def replicated(self) -> None:
        """`committed`, and every node of the view has it. Raises `ClusterError` if the others do not say so in time."""
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

"""A test harness: a cluster in one process that runs commands on any node, while nodes start and stop."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from strogoff.admin import http_pages
from strogoff.admin.api_keys import ApiKeys, key_store_of
from strogoff.admin.commands import session, slot
from strogoff.admin.context import Context
from strogoff.admin.dispatch import run_command
from strogoff.admin.fan_out import answer_peers
from strogoff.admin.http_listeners import HttpListeners
from strogoff.admin.metrics import Metrics
from strogoff.admin.result import Alert, Part, Table, Text
from strogoff.broker.process.server import Server
from strogoff.testing import Cluster


def context_of(server: Server) -> Context:
    """The context of the commands of a node."""
    keys = ApiKeys(key_store_of(server), 0, None, time.time, random.Random(1).choice)
    context = Context(server, HttpListeners(server.log), Metrics(server), keys)
    answer_peers(context, {**session.LOCAL_HANDLERS, **slot.LOCAL_HANDLERS, **http_pages.LOCAL_HANDLERS})
    return context


class ClusterHarness:
    """A running cluster and its commands."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def context(self, number: int) -> Context:
        """The context of a node since its last start."""
        return context_of(self.cluster[number].server)

    def options(self, number: int) -> Any:
        """The options of a node."""
        return self.cluster[number].node.env.options

    def limits(self) -> list[int]:
        """The setting that these tests change, on each running node."""
        return [each.node.options.max_inflight_messages for each in self.cluster.nodes if each.up]

    async def run_command(self, number: int, *words: str) -> tuple[list[Part], int]:
        """Run a command on a node. Returns the result and the status."""
        for each in self.cluster.nodes:
            if each.up:
                context_of(each.server)
        return await run_command(self.context(number), list(words))

    async def said(self, number: int, *words: str) -> list[str]:
        """The texts of a command that must succeed."""
        parts, status = await self.run_command(number, *words)
        assert status == 0, parts
        return [part.text for part in parts if isinstance(part, Text)]

    async def refused(self, number: int, *words: str) -> str:
        """Returns the error of a command that must be refused."""
        (part,), status = await self.run_command(number, *words)
        assert status == 1 and isinstance(part, Alert), part
        return part.text

    async def rows(self, number: int, *words: str) -> list[dict[str, Any]]:
        """The rows of the table of a command that must succeed."""
        (part, *_), status = await self.run_command(number, *words)
        assert status == 0 and isinstance(part, Table), part
        return [dict(zip(part.columns, row, strict=True)) for row in part.rows]


@asynccontextmanager
async def running_cluster(nodes: int = 3, pace: float = 4, **conf: Any) -> AsyncIterator[ClusterHarness]:
    """A running cluster. `pace` divides its timeouts. `__` in a name stands for a dot."""
    async with Cluster(nodes, {name.replace("__", "."): value for name, value in conf.items()}, pace=pace) as cluster:
        yield ClusterHarness(cluster)

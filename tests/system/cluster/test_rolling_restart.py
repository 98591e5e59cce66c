"""Each node is stopped and started in turn, as by `kubectl rollout restart`, under load: nothing is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from bench.cluster_nodes import Node, until
from bench.ha_test import Load, Plan, Run
from strogoff.admin.client import Unreachable
from strogoff.admin.wire import TruncatedResult

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(180)]

STALL_S = 5.0
"""No publisher waits longer for an acknowledgement, in seconds, on a busy machine too."""


class Rolling(Run):
    """A fault `roll`: the next node is told to stop while the last one still starts. It has to wait by itself."""

    def __init__(self, plan: Plan, rounds: int, load: Load, folder: Path) -> None:
        super().__init__(plan, rounds, load, folder)
        self.connected: Counter[str] = Counter()
        """Client id -> its connections since the first node was stopped."""
        self.without_primary = 0
        """The most slots without a primary that any node has shown."""

    async def _roll(self, _: Node) -> None:
        since = len(self.diary)
        watching = [asyncio.create_task(self._watch(node)) for node in self.nodes]
        try:
            await self._stopped(self.nodes[0])
            for last, following in pairwise(self.nodes):
                await asyncio.gather(self._started(last), self._stopped(following))
            await self._started(self.nodes[-1])
        finally:
            for each in watching:
                each.cancel()
        self.connected.update([who.split()[0] for _, who, what in self.diary[since:] if what == "connected"])

    async def _stopped(self, node: Node) -> None:
        self._live.remove(node)
        await node.stop()

    async def _started(self, node: Node) -> None:
        await node.start()
        self._live.append(node)

    async def _watch(self, node: Node) -> None:
        """Look until the task is cancelled."""

        async def look() -> bool:
            with suppress(TimeoutError, Unreachable, TruncatedResult):
                rows = (await node.ask("metrics", "show", within_s=2)).tables[0]
                shown = next(row["value"] for row in rows if row["metric"] == "slots_without_primary")
                self.without_primary = max(self.without_primary, int(shown))
            return False

        await until("all nodes are started", look, 150)


def test_a_rolling_restart_loses_nothing_and_leaves_no_slot_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        run = Rolling(Plan(("gateway",), ("roll",), (1, 2), seed=3), 1, Load(messages=600), tmp_path)
        async with asyncio.timeout(150):
            assert await run.run() == []
        (verdict,) = run.audit.by_case().values()
        assert verdict.acked > 1000 and verdict.stall_s < STALL_S
        assert run.without_primary == 0
        assert run.connected and max(run.connected.values()) <= len(run.nodes)

    asyncio.run(scenario())

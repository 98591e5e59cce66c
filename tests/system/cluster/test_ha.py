"""Each role of a node is killed once while each session has two copies; `make ha-test` is the long form."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.ha_test import ROLES, Plan, Run

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]


def test_a_killed_node_loses_nothing(tmp_path: Path) -> None:
    """P1, P2, P3, P6: primary, follower, gateway and sender are killed, under QoS 1 and QoS 2 load."""

    async def scenario() -> None:
        run = Run(Plan(ROLES, ("kill",), (1, 2), seed=7), len(ROLES), 60, tmp_path)
        async with asyncio.timeout(90):
            assert await run.run() == []
        cases = run.audit.by_case()
        assert sorted(cases) == [(role, "kill") for role in sorted(ROLES)]
        assert sum(verdict.acked for verdict in cases.values()) > 400

    asyncio.run(scenario())

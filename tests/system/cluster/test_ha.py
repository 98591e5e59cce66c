"""Nodes are killed while each session has two copies. `make ha-test` and `make turns-test` are the long forms."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bench.ha_roles import AllRoles
from bench.ha_test import ROLES, Load, Plan, Run
from bench.ha_turns import Turns
from strogoff.testing.log_audit.audit import audit
from strogoff.testing.log_audit.log_files import read_log

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]


def test_a_killed_node_loses_nothing(tmp_path: Path) -> None:
    """P1, P2, P3, P6: primary, follower, gateway and sender are killed, under QoS 1 and QoS 2 load.

    The event logs of the nodes show the same: the audit finds no message that is lost, and no answer that has a smaller
    stamp than what it waited for.
    """

    async def scenario() -> None:
        run = Run(Plan(ROLES, ("kill",), (1, 2), seed=7), len(ROLES), Load(), tmp_path)
        async with asyncio.timeout(90):
            assert await run.run() == []
        cases = run.audit.by_case()
        assert sorted(cases) == [(role, "kill") for role in sorted(ROLES)]
        acked = sum(verdict.acked for verdict in cases.values())
        assert acked > 400
        rows = rows_of(tmp_path)
        found = audit(rows)
        assert found.verdict == "valid" and found.acked >= acked, found
        assert [text for text in found.problems() if not text.startswith("A4 ")] == []
        assert later_than_their_answer(rows) == []

    asyncio.run(scenario())


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Returns the rows of all event logs below a folder."""
    return read_log(folder)[0]


def later_than_their_answer(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows about safe entries of queues with larger stamps than the answer to the publisher, which waited
    for them."""
    answers: dict[tuple[Any, ...], int] = {}
    for row in rows:
        if row["type"] == "pub.ack":
            mid = tuple(row["mid"])
            answers[mid] = min(row["hlc"], answers.get(mid, row["hlc"]))
    return [
        row for row in rows if row["type"] == "q.durable" and row["hlc"] > answers.get(tuple(row["mid"]), row["hlc"])
    ]


@pytest.mark.by_hand
def test_nodes_that_are_killed_in_turn_lose_and_delay_nothing(tmp_path: Path) -> None:
    """P1, P6: one publisher and two subscribers go on while each node is killed."""

    async def scenario() -> None:
        run = Turns(Load(messages=2000, rate=100, size=150), 7, tmp_path)
        said: list[str] = []
        async with asyncio.timeout(100):
            assert await run.run(said.append) == []
        ((_, verdict),) = run.audit.by_case().items()
        assert (verdict.delivered, verdict.unmarked) == (4000, 0)
        assert verdict.late_s < 5.0
        assert [line[:2] for line in said[:2]] == ["n1", "n2"]

    asyncio.run(scenario())


def test_one_fault_that_strikes_all_roles_loses_nothing_and_fires_the_right_wills(tmp_path: Path) -> None:
    """P1, P2, P3, P5, P6: sessions, publishers and wills at primary, follower and gateway, which is killed."""

    async def scenario() -> None:
        run = AllRoles(Plan(("each",), ("kill",), (1, 2), seed=3), 2, Load(messages=200), tmp_path)
        async with asyncio.timeout(100):
            assert await run.run() == []
        cases = run.audit.by_case()
        assert sorted(cases) == [("follower", "kill"), ("gateway", "kill"), ("primary", "kill")]
        assert all(verdict.rounds == 2 for verdict in cases.values())
        assert run.wills.gone == run.wills.back == 4

    asyncio.run(scenario())

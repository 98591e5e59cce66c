"""No row has a smaller stamp than a row of another node that led to it, although the clocks of the logs differ."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.reporting.events import AHEAD_MS, Events
from strogoff.sim.causes import Causes
from strogoff.sim.runner import RunOptions, run_seed

APART = RunOptions(1.0, nodes=3, variants=(), scenario="chatter", apart_ms=500)


def row(node: str, hlc: int, kind: str = "store.sync") -> dict[str, Any]:
    return {"type": kind, "node": node, "boot": 1, "seq": hlc, "hlc": hlc}


def test_a_hop_is_counted_once() -> None:
    causes = Causes()
    causes.wrote(row("a", 10))
    for _ in range(3):
        causes.took("b", causes.sent("a"))
    assert causes.hops == 0
    causes.wrote(row("b", 11))
    causes.took("b", causes.sent("a"))
    causes.wrote(row("b", 12))
    assert (causes.hops, causes.problems) == (1, [])


def test_an_effect_with_a_smaller_stamp_is_a_problem() -> None:
    causes = Causes()
    causes.wrote(row("a", 10))
    causes.took("b", causes.sent("a"))
    causes.wrote(row("b", 10))
    assert causes.hops == 1
    assert causes.problems == [
        "stamps: store.sync (row 10 of boot 1 of b) has no larger stamp than store.sync (row 10 of boot 1 of a), "
        "which led to it"
    ]


def test_a_stamp_more_than_a_day_ahead_leads_to_nothing() -> None:
    """The node ignores it."""
    for ahead_ms, problems in ((AHEAD_MS - 1, 1), (AHEAD_MS, 0)):
        causes = Causes()
        causes.wrote(row("a", 10 + (ahead_ms << 16)))
        causes.took("b", causes.sent("a"))
        causes.wrote(row("b", 10))
        assert len(causes.problems) == problems


def test_the_newest_cause_counts_whatever_comes_last() -> None:
    causes = Causes()
    causes.wrote(row("a", 10))
    old = causes.sent("a")
    causes.wrote(row("a", 30))
    causes.took("b", causes.sent("a"))
    causes.took("b", old)
    causes.wrote(row("b", 20))
    assert causes.hops == 1 and len(causes.problems) == 1


def test_a_process_that_has_died_leads_to_nothing() -> None:
    causes = Causes()
    causes.wrote(row("a", 10))
    causes.took("b", causes.sent("a"))
    causes.wrote(row("b", 5, "node.start"))
    assert (causes.hops, causes.problems) == (0, [])


def test_nothing_was_sent_before_the_first_row() -> None:
    causes = Causes()
    causes.took("b", causes.sent("a"))
    causes.wrote(row("b", 5))
    assert causes.hops == 0


def test_causes_come_first_although_clocks_are_apart() -> None:
    found = run_seed(2420001, APART).audit
    assert found is not None and found.differences == () and found.hops > 500 and found.pairs > 2000


def test_without_stamps_causes_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clocks are really apart, and hops are really compared."""
    monkeypatch.setattr(Events, "observe", lambda self, hlc: None)
    found = run_seed(2420001, APART).audit
    assert found is not None and len(found.differences) > 20

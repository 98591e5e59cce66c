"""Lives, incidents, faults and settings, from rows."""

from __future__ import annotations

from typing import Any

from strogoff.analytics.report.facts import Facts, facts_of
from strogoff.analytics.report.report_data import Fault, Life, Setting, Span, Split
from strogoff.judge.lives import BootRows


def stamp(ms: int) -> int:
    return ms << 16


def rows_of(begin_ms: int, end_ms: int, stopped: bool = False) -> BootRows:
    return BootRows(1, stamp(begin_ms), 9, stamp(end_ms), stopped)


def row(kind: str, ms: int, node: str = "n1", boot: int = 1, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "node": node, "boot": boot, "seq": ms, "hlc": stamp(ms), **fields}


def split(kind: str, ms: int, state: str = "minority", **fields: Any) -> dict[str, Any]:
    return row(kind, ms, nodes=["n2"], incident=3, state=state, **fields)


def test_boots_end_in_three_ways() -> None:
    boots = {("n1", 1): rows_of(0, 50), ("n1", 2): rows_of(80, 90, stopped=True), ("n2", 1): rows_of(5, 95)}
    assert facts_of([], boots).lives == (
        Life("n1", 1, 0, 50, "killed"),
        Life("n1", 2, 80, 90, "stopped"),
        Life("n2", 1, 5, 95, "open"),
    )


def test_a_kill_that_a_test_injected_ends_the_last_boot() -> None:
    found = facts_of([row("fault.kill", 50, nodes=["n1"])], {("n1", 1): rows_of(0, 50)})
    assert found.lives == (Life("n1", 1, 0, 50, "killed"),)
    assert found.faults == (Fault(50, "fault.kill", ("n1",)),)


def test_a_boot_does_not_begin_before_the_one_before_it_has_ended() -> None:
    """The first rows of a node that starts may have an old time."""
    boots = {("n1", 1): rows_of(0, 50), ("n1", 2): rows_of(2, 90)}
    assert facts_of([], boots).lives[1] == Life("n1", 2, 50, 90, "open")
    assert facts_of([], {("n1", 1): rows_of(0, 50), ("n1", 2): rows_of(2, 3)}).lives[1] == Life("n1", 2, 50, 50, "open")


def test_an_incident_has_its_window_and_the_time_without_a_lease() -> None:
    rows = [
        split("split.heal", 70),
        split("split.detect", 20, window_ms=15),
        split("split.change", 40, state="majority"),
    ]
    found = facts_of(rows, {("n1", 1): rows_of(0, 90)})
    assert found.splits == (Split("n1", "incident 3", "minority", 5, 20, 70),)
    assert found.minorities == (Span("n1", 20, 40),)


def test_a_node_that_is_down_is_in_no_minority() -> None:
    boots = {("n1", 1): rows_of(0, 30), ("n1", 2): rows_of(60, 90)}
    found = facts_of([split("split.detect", 20), row("node.start", 60, boot=2)], boots)
    assert found.minorities == (Span("n1", 20, 30),)
    assert found.splits[0].healed_ms is None
    assert facts_of([split("split.detect", 20)], {("n1", 1): rows_of(0, 30)}).minorities == (Span("n1", 20, 30),)


def test_settings_are_those_that_were_in_force_at_any_time() -> None:
    rows = [
        row("node.start", 1, level="message", settings=["queue_replicas=2", "a=b=c"]),
        row("node.start", 1, "n2", level="session", settings=["queue_replicas=2", "a="]),
        row("config.change", 9, key="queue_replicas", new="1"),
    ]
    found = facts_of(rows, {})
    assert found.settings == (
        Setting("a", "", ("n2",)),
        Setting("a", "b=c", ("n1",)),
        Setting("queue_replicas", "1", ("n1",)),
        Setting("queue_replicas", "2", ("n1", "n2")),
    )


def test_an_old_log_names_no_settings() -> None:
    found = facts_of([row("node.start", 1, settings=None, level=None)], {})
    assert found.settings == ()


def test_no_rows_tell_nothing() -> None:
    assert facts_of([], {}) == Facts()

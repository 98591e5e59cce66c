"""A17: how soon other nodes learn of subscriptions. More cases are planted."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.judge.anomalies.a17_sub_lag import judge, order
from strogoff.judge.building import Summary, world_of
from strogoff.judge.findings import Finding
from strogoff.judge.lives import BootRows
from strogoff.judge.rows import LOGICAL_BITS, Row
from strogoff.judge.world import World

END = 1_000_000


def row(kind: str, node: str, ms: int, write: int, **fields: Any) -> Row:
    hlc = ms << LOGICAL_BITS
    return {"type": kind, "v": 8, "node": node, "boot": 1, "seq": ms, "hlc": hlc, "write": write, **fields}


def learned(node: str, ms: int, write: int) -> Row:
    return row("map.learn", node, ms, write, source="a", source_boot=1)


def world(*down: Row) -> World:
    """Node `a` sees `b` and `c`, which have leases."""
    boots = {(name, 1): BootRows(1, 1, 900, END << LOGICAL_BITS, False) for name in "abc"}
    whole = [each for name in "bc" for each in (row("mem.up", "a", 1, 0, target=name), row("lease.get", name, 1, 0))]
    return world_of([*whole, *down], Summary(boots))


def found(rows: list[Row], known: World | None = None) -> list[Finding]:
    return list(judge(sorted(rows, key=order), known or world()))


def numbers(rows: list[Row], known: World | None = None) -> dict[str, int]:
    return {each.kind: each.value for each in found(rows, known)}


def test_the_last_node_that_has_this_write_or_a_later_one_counts() -> None:
    rows = [row("sub.add", "a", 100, 5), learned("b", 110, 5), learned("c", 105, 4), learned("c", 170, 6)]
    assert numbers(rows) == {"p50": 70, "p99": 70, "max": 70}
    rows.append(learned("c", 300, 6))
    assert numbers(rows)["max"] == 70, "it had told that before"
    (*_, slowest) = found(rows)
    assert slowest.rows == (("a", 1, 100), ("c", 1, 170)) and slowest.severity == "metric"


def test_what_was_known_before_takes_no_time() -> None:
    assert numbers([learned("b", 90, 5), row("sub.add", "a", 100, 5)]) == {"p50": 0, "p99": 0, "max": 0}


def test_quantiles_of_many() -> None:
    rows = [row("sub.add", "a", 100, number) for number in range(1, 1001)]
    rows += [learned("b", 100 + number, number) for number in range(1, 1001)]
    assert numbers(rows) == {"p50": 500, "p99": 990, "max": 1000}


def test_a_node_out_of_the_view_does_not_count() -> None:
    rows = [row("sub.add", "a", 100, 5), learned("b", 110, 5), learned("c", 400, 5)]
    assert numbers(rows, world(row("mem.down", "a", 200, 0, target="c")))["max"] == 10


@pytest.mark.parametrize(("ms", "right", "late"), [(170, "lease", 0), (169, "lease", 1), (169, "policy", 0)])
def test_suback_waits_for_all(ms: int, right: str, late: int) -> None:
    rows = [learned("b", 110, 5), learned("c", 170, 5), row("sub.ack", "a", ms, 5, right=right)]
    rows.append(row("sub.ack", "a", 200, 5, right="lease"))
    assert [(each.kind, each.value) for each in found(rows)] == [("late", 1)] * late


def test_all_late_answers_are_counted() -> None:
    rows = [row("sub.ack", "a", 100 + number, number) for number in (1, 2, 3)]
    (late,) = found([*rows, learned("b", 103, 2), learned("b", 200, 3)])
    assert (late.value, late.severity, late.subject.detail) == (3, "error", "boot 1, b")


@pytest.mark.parametrize(("lost", "again", "late"), [(50, 150, 0), (50, 90, 1), (150, 160, 1)])
def test_suback_waits_for_no_node_without_a_lease(lost: int, again: int, late: int) -> None:
    """A node that joins, or comes back, gets its lease when it has what the others know."""
    leases = row("lease.lose", "c", lost, 0), row("lease.get", "c", again, 0)
    rows = [learned("b", 90, 5), row("sub.ack", "a", 100, 5), learned("c", 140, 5)]
    assert [each.kind for each in found(rows, world(*leases))] == ["late"] * late

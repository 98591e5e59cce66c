"""Absences of nodes from the views of others, and times without a lease."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.judge.partitions import Partitions
from strogoff.judge.rows import NEVER


def read(*rows: dict[str, Any]) -> Partitions:
    found = Partitions()
    for place, row in enumerate(rows):
        found.note({**row, "hlc": place})
    return found


def test_a_node_is_away_from_down_to_up() -> None:
    """For the node whose view says so; a time span counts even if it only overlaps."""
    found = read(
        {"type": "mem.up", "node": "a", "target": "b"},
        {"type": "mem.down", "node": "a", "target": "b"},
        {"type": "mem.down", "node": "a", "target": "c"},
        {"type": "mem.up", "node": "a", "target": "b"},
    )
    assert (
        found.was_out_of_view("a", "b", 0, 1)
        and found.was_out_of_view("a", "b", 2, 9)
        and not found.was_out_of_view("a", "b", 3, 9)
    )
    assert found.was_out_of_view("a", "c", 100, 101) and not found.was_out_of_view("b", "a", 0, 9)


@pytest.mark.parametrize(("stamp", "since"), [(0, NEVER), (1, 1), (2, 1), (3, NEVER), (4, 4)])
def test_since_when_a_node_is_away(stamp: int, since: int) -> None:
    kinds = ("mem.up", "mem.down", "mem.down", "mem.up", "mem.down")
    found = read(*({"type": kind, "node": "a", "target": "b"} for kind in kinds))
    assert found.out_of_view_since("a", "b", stamp) == since
    assert found.out_of_view_since("b", "a", stamp) == NEVER


def test_a_node_is_alone_from_detection_to_heal() -> None:
    """Or until it is in a majority, or restarts."""
    rows = [
        {"type": "split.detect", "node": "a", "state": "minority"},
        {"type": "split.change", "node": "a", "state": "minority"},
        {"type": "split.change", "node": "a", "state": "majority"},
        {"type": "split.change", "node": "a", "state": "minority"},
    ]
    found = read(*rows)
    assert (
        found.span_without_lease("a", 1) == (0, 2)
        and found.span_without_lease("a", 2) is None
        and found.span_without_lease("a", 9) == (3, NEVER)
    )
    for end in ("split.heal", "node.start"):
        assert read(*rows, {"type": end, "node": "a"}).span_without_lease("a", 3) == (3, 4)
    assert found.span_without_lease("b", 0) is None


def test_leases_by_their_own_rows() -> None:
    """A node that has said nothing about its lease has neither had nor lost it."""
    found = read(
        {"type": "mem.up", "node": "a", "target": "b"},
        {"type": "lease.get", "node": "a"},
        {"type": "lease.lose", "node": "a"},
        {"type": "lease.get", "node": "a"},
        {"type": "node.start", "node": "a"},
    )
    assert [found.had_lease("a", stamp) for stamp in range(5)] == [False, True, False, True, False]
    assert [found.span_after_a_lost_lease("a", stamp) for stamp in range(4)] == [None, None, (2, 3), None]


def test_whether_a_node_was_ever_alone() -> None:
    found = read(
        {"type": "mem.up", "node": "a", "target": "b"},
        {"type": "split.detect", "node": "a", "state": "minority"},
        {"type": "split.heal", "node": "a"},
    )
    assert found.anybody_without_lease(["b", "a"], 0, 1) and not found.anybody_without_lease(["a"], 2, 9)
    assert not found.anybody_without_lease(["b"], 0, 9)


@pytest.mark.parametrize("kind", ["node.join", "mem.up"])
def test_a_node_that_joins_has_no_lease(kind: str) -> None:
    """The start of its process may be in another run: until it joins, it is a cluster of its own."""
    found = read(
        {"type": "lease.get", "node": "a"},
        {"type": kind, "node": "a", "target": "b"},
        {"type": "mem.up", "node": "a", "target": "c"},
    )
    joins = kind == "node.join"
    assert (found.had_lease("a", 2), found.is_unleased("a", 2)) == (not joins, joins)


def test_a_node_that_soon_loses_its_lease() -> None:
    found = read(
        {"type": "lease.get", "node": "a"},
        {"type": "mem.up", "node": "a", "target": "b"},
        {"type": "lease.lose", "node": "a"},
        {"type": "lease.lose", "node": "b"},
    )
    soon = [found.loses_lease("a", stamp, within) for stamp, within in ((0, 2), (0, 1), (1, 1), (2, 9))]
    assert soon == [True, False, True, False]
    assert not found.loses_lease("b", 2, 9) and not found.loses_lease("c", 2, 9)


@pytest.mark.parametrize(
    ("begin", "end", "duration", "last", "had"),
    [
        (0, NEVER, 3, 99, True),  # from 1 to 4
        (0, NEVER, 4, 9, False),  # since 6 until the last row
        (0, NEVER, 4, 10, True),
        (2, NEVER, 3, 6, False),
        (0, 3, 3, 99, False),
        (6, NEVER, 99, 7, True),  # it has one from the begin on, for ever
    ],
)
def test_how_long_a_lease_lasts(begin: int, end: int, duration: int, last: int, had: bool) -> None:
    found = Partitions()
    for kind, stamp in (("lease.get", 1), ("lease.lose", 4), ("lease.get", 6)):
        found.note({"type": kind, "node": "a", "hlc": stamp})
    assert found.had_for("a", begin, end, duration, last) is had
    assert found.had_for("b", begin, end, duration, last)


@pytest.mark.parametrize(
    ("begin", "end", "none"),
    [
        (4, 5, True),
        (3, 5, False),  # until the stamp of the loss
        (4, 6, False),  # from the stamp of the lease
        (0, 0, True),  # before the first one
        (0, 9, False),
    ],
)
def test_a_node_that_has_no_lease_all_the_time(begin: int, end: int, none: bool) -> None:
    found = Partitions()
    for kind, stamp in (("lease.get", 1), ("lease.lose", 4), ("lease.get", 6)):
        found.note({"type": kind, "node": "a", "hlc": stamp})
    for stamp, state in ((4, "minority"), (6, "majority")):
        found.note({"type": "split.detect", "node": "b", "hlc": stamp, "state": state})
    assert found.had_none_between("a", begin, end) is none
    assert found.had_none_between("b", begin, end) is (none and begin == 4)  # the log has none of its leases
    assert not found.had_none_between("c", begin, end)

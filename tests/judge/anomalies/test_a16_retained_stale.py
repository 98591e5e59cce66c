"""A16: old retained messages. Planted cases are in tests/judge/planted."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from strogoff.judge.anomalies.a16_retained_stale import LAG, Retained, judge
from strogoff.judge.lives import Lives
from strogoff.judge.world import World

OWNER = ("n", "", "rx")


def stored(number: int, set_at: int, acked: int = -1, brought: int = 0) -> Retained:
    message, row = ("n", 1, number), ("n", 1, number)
    return Retained("", "t", message, set_at, acked, row, (OWNER, brought) if brought else None)


def stale(*steps: Retained) -> list[Any]:
    return [each.subject.message for each in judge(sorted(steps, key=attrgetter("due")), World(Lives({})))]


def test_the_newest_one_that_was_acknowledged_in_time_counts() -> None:
    old, new = stored(1, 1, 2), stored(2, 3, 4)
    assert stale(old, new, stored(1, 1, 2, brought=5 + LAG)) == [("n", 1, 1)]
    assert stale(old, new, stored(2, 3, 4, brought=5 + LAG)) == []
    assert stale(old, new, stored(1, 1, 2, brought=3 + LAG)) == []
    assert stale(old, stored(2, 3), stored(1, 1, 2, brought=9 + LAG)) == []


def test_messages_that_were_set_at_the_same_time_have_no_order() -> None:
    """The first one was acknowledged after the second had been set; one without acknowledgement has ten seconds."""
    assert stale(stored(1, 1, 9), stored(2, 3, 4), stored(1, 1, 9, brought=20 + LAG)) == []
    late = stored(2, 3 + LAG, 4 + LAG)
    assert stale(stored(1, 1), stored(2, 3, 4), stored(1, 1, brought=20 + LAG)) == []
    assert stale(stored(1, 1), late, stored(1, 1, brought=20 + 2 * LAG)) == [("n", 1, 1)]

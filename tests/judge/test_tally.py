"""Counts over all messages."""

from __future__ import annotations

from strogoff.judge.judging import Judged
from strogoff.judge.tally import Tally

ONE, TWO = (("n", "", "one"), 1), (("n", "", "two"), 1)


def judged(queued: dict[tuple[tuple[str, str, str], int], int], acked: bool = True) -> Judged:
    return Judged([], [], queued, [], [("n", 5)], [("n", 1, "os"), ("n", 1, "os")], True, acked, 2, 1)


def test_counts_and_the_last_stamp_of_each_queue() -> None:
    tally = Tally()
    for each in (judged({ONE: 7, TWO: 0}), judged({ONE: 6}), judged({TWO: 9}, acked=False)):
        tally.take(each)
    assert (tally.published, tally.acked, tally.delivered, tally.open) == (3, 2, 6, 3)
    assert tally.queued == {ONE: 7, TWO: 9}
    assert tally.without_lease == {("n", 5): 3} and tally.exposed == {("n", 1, "os"): 6}

"""Answers count when this node has a lease and follows the slot table that the answering node followed."""

from __future__ import annotations

from strogoff.broker.clustering.unproven_answers import Answer, UnprovenAnswers


def test_an_answer_waits_for_the_lease_and_the_table() -> None:
    made = UnprovenAnswers()
    made.table = 5
    assert made.counts("n2", 3, [], 5, True)
    assert not made.counts("n2", 4, [], 6, True)
    assert not made.counts("n2", 0, [9], 6, True)
    assert not made.counts("n3", 7, [], 5, False)
    assert made.proven() == [("n3", Answer(7, [], 5))]
    made.table = 6
    assert made.proven() == [("n2", Answer(4, [9], 6))] and made.proven() == []
    assert made.counts("n2", 10, [], 6, True)


def test_an_answer_of_a_new_process_waits_until_it_is_in_a_view() -> None:
    made = UnprovenAnswers()
    made.boots = {"n2": 3}
    assert made.counts("n2", 4, [], 0, True, 3)
    assert not made.counts("n2", 5, [], 0, True, 4) and not made.counts("n3", 1, [], 0, True, 1)
    assert made.proven() == []
    made.boots = {"n2": 4}
    assert made.proven() == [("n2", Answer(5, [], 0, 4))]


def test_a_later_answer_does_not_overtake_one_that_waits() -> None:
    made = UnprovenAnswers()
    assert not made.counts("n2", 4, [], 0, False)
    assert not made.counts("n2", 5, [], 0, True), "the lease is back, but nobody has called `proven`"
    assert made.proven() == [("n2", Answer(5, [], 0))]

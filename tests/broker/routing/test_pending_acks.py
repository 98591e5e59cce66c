"""Pending acknowledgements are counted. A waiter is called once, when all have arrived or one has failed."""

from __future__ import annotations

import gc
from weakref import ref

from hypothesis import given
from hypothesis import strategies as st

from strogoff.broker.routing.pending_acks import PendingAcks, complete_all


def waited(obligation: PendingAcks, told: list[str], name: str = "told") -> PendingAcks:
    obligation.waiter = lambda: told.append(name)
    return obligation


@given(st.integers(1, 20))
def test_the_last_discharge_calls_the_waiter(owed: int) -> None:
    told: list[str] = []
    obligation = waited(PendingAcks(), told)
    for _ in range(owed):
        assert obligation.add() is obligation
    for number in range(owed):
        assert told == []
        assert obligation.open == owed - number
        obligation.complete()
    assert told == ["told"]
    assert obligation.waiter is None


def test_a_failure_calls_the_waiter_and_stays_until_it_waits_again() -> None:
    told: list[str] = []
    begun: list[PendingAcks] = []
    obligation = waited(PendingAcks().add().add(), told)
    obligation.fail(begun.append)
    assert (told, obligation.open, obligation.failed) == (["told"], 2, True)
    obligation.complete()
    waited(obligation, told, "again").retry()
    obligation.retry()
    assert (told, obligation.open, obligation.failed, begun) == (["told"], 1, False, [obligation])
    obligation.complete()
    assert told == ["told", "again"]


def test_without_pending_acks_the_answer_leaves_at_once() -> None:
    obligation = PendingAcks().add()
    obligation.complete()
    assert obligation.open == 0


def test_a_waiter_can_add_waits_when_called() -> None:
    told: list[str] = []
    obligation = PendingAcks().add()

    def more() -> None:
        told.append("first")
        obligation.add()
        waited(obligation, told, "second")

    obligation.waiter = more
    obligation.complete()
    assert told == ["first"]
    obligation.complete()
    assert told == ["first", "second"]


def test_many_are_discharged_before_a_waiter_is_called() -> None:
    """A connection that waits for many is called by the first, finds all of them done, and is not called again."""
    told: list[str] = []
    many = [PendingAcks().add() for _ in range(3)]

    def tell() -> None:
        told.append("told")
        assert all(each.open == 0 for each in many)
        for each in many:
            each.waiter = None

    for each in many:
        each.waiter = tell
    complete_all(many)
    assert told == ["told"]


def test_the_same_one_twice_and_failed_ones_among_many() -> None:
    told: list[str] = []
    twice, failed = waited(PendingAcks().add().add(), told, "twice"), PendingAcks().add().add()
    failed.fail(lambda _: None)
    complete_all([twice, failed, twice])
    assert told == ["twice"]
    assert (twice.open, failed.open, failed.failed) == (0, 1, True)


class _Connection:
    """A connection with a pending answer, called when the answer may leave."""

    def __init__(self) -> None:
        self.owed = PendingAcks().add()
        self.owed.waiter = self.answer
        self.owed.fail(lambda _: self.answer())
        self.owed.waiter = self.answer

    def answer(self) -> None:
        """Send it."""


def test_an_answer_that_never_comes_is_garbage_collected() -> None:
    """The wait and the connection refer to each other: only the garbage collector can free them."""
    connection = _Connection()
    remains = ref(connection)
    del connection
    gc.collect()
    assert remains() is None

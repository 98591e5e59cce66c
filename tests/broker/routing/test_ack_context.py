"""The context of a packet collects the waits of its answer, and passes them on once."""

from __future__ import annotations

from strogoff.broker.routing.ack_context import AckContext, unanswered
from strogoff.broker.routing.pending_acks import PendingAcks


def test_a_new_context_waits_for_nothing() -> None:
    context = AckContext()
    assert context.pending is None
    assert context.answered is True
    assert context.take() is None


def test_need_makes_one_object_for_all_waits() -> None:
    context = AckContext()
    first = context.need().add()
    assert context.need().add() is first
    assert context.pending is first
    assert first.open == 2


def test_need_keeps_the_initial_wait_of_the_context() -> None:
    pending = PendingAcks()
    assert AckContext(pending).need() is pending


def test_take_leaves_a_new_context() -> None:
    context = AckContext()
    first = context.need()
    assert context.take() is first
    assert context.pending is None
    assert context.take() is None
    assert context.need() is not first


def test_a_message_of_the_broker_has_no_answer() -> None:
    context = unanswered()
    assert context.answered is False
    assert context.pending is None
    assert unanswered() is not context

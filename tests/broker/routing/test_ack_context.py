"""What an answer waits for, while its packet is handled."""

from __future__ import annotations

from strogoff.broker.routing.ack_context import AckContext, unanswered
from strogoff.broker.routing.pending_acks import PendingAcks


def test_what_is_needed_is_made_once_and_handed_over_once() -> None:
    context = AckContext()
    assert context.pending is None
    pending = context.need()
    assert context.need() is pending is context.pending
    assert context.take() is pending
    assert context.pending is None and context.take() is None
    assert context.need() is not pending


def test_a_context_may_begin_with_what_is_pending() -> None:
    pending = PendingAcks()
    assert AckContext(pending).need() is pending


def test_only_a_message_that_nobody_waits_for_is_unanswered() -> None:
    assert AckContext().answered
    assert not unanswered().answered

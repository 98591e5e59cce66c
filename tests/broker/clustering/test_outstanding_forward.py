"""A copy of a message for another node."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.outstanding_forward import OutstandingForward
from strogoff.broker.queues.message import Message, Origin


@pytest.mark.parametrize(("slots", "durable"), [((), False), ((7,), True)])
def test_a_copy_with_slots_is_for_durable_sessions(slots: tuple[int, ...], durable: bool) -> None:
    message = Message("", "t", b"m", 1, False, None, 0, "writer", Origin("n1", 1), 1)
    copy = OutstandingForward(0, message, None, True, slots, ())
    assert copy.durable is durable and not copy.kept and copy.number == 0

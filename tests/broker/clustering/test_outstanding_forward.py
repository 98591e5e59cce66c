"""A copy of a message for another node."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.outstanding_forward import OutstandingForward
from strogoff.broker.queues.message import Message, Origin
from strogoff.broker.routing.remote import RemoteMembers


@pytest.mark.parametrize(("slots", "durable"), [((), False), ((7,), True)])
def test_a_copy_with_slots_is_for_durable_sessions(slots: tuple[int, ...], durable: bool) -> None:
    message = Message("", "t", b"m", 1, False, None, 0, "writer", Origin("n1", 1), 1)
    copy = OutstandingForward(0, message, None, True, slots, ())
    assert copy.durable is durable and not copy.kept and copy.number == 0


@pytest.mark.parametrize(
    ("live", "slots", "of_group", "lacks"),
    [
        (False, (), (8, 9), True),
        (False, (), (9,), False),
        (False, (), (), False),
        (True, (), (8,), False),
        (False, (7,), (8,), False),
    ],
)
def test_a_copy_for_groups_alone_lacks_members_whose_slots_have_moved(
    live: bool, slots: tuple[int, ...], of_group: tuple[int, ...], lacks: bool
) -> None:
    """Other sessions of the node still wait for a copy that is for them, too."""
    message = Message("", "t", b"m", 1, False, None, 0, "writer", Origin("n1", 1), 1)
    member = RemoteMembers("g", "t", "n4", 0, 1, 1, of_group)
    assert OutstandingForward(0, message, None, live, slots, [member]).lacks_members({8: "n2"}) is lacks

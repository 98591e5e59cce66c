"""The changes of membership commands, in the log of a first week."""

from __future__ import annotations

from strogoff.cluster.membership.commands import Boot, Join, Leave, Settle
from strogoff.cluster.membership.events import Refused
from strogoff.cluster.membership.state_machine import MembershipState

from .test_state_machine import apply


def test_the_log_of_a_first_week() -> None:
    membership = MembershipState()
    told = []
    for command in (
        Settle("id", "a", "d", 1, "p", ""),
        Join("b", "e", 1, "p", ""),
        Boot("a", "d", 2, "q", ""),
        Boot("a", "d", 1, "r", ""),
        Leave("b"),
    ):
        told += [type(happening).__name__ for happening in apply(membership, command)]
    assert told == ["Settled", "Joined", "ViewChanged", "Joined", "Booted", "ViewChanged", "Refused", "Left"]


def test_a_refusal_names_the_command_and_the_boot_to_beat() -> None:
    membership = MembershipState()
    apply(membership, Settle("id", "a", "d", 3, "p", ""))
    command = Boot("a", "d", 2, "q", "")
    assert apply(membership, command) == (Refused(command, "boot 2 is not above the logged 3", 3),)

"""Cores with one plausible mistake each. A walk must find each of them."""

from __future__ import annotations

import msgspec

from strogoff.cluster.membership.commands import Boot, Row, SetView, decode_command
from strogoff.cluster.membership.coordinator import MembershipCoordinator
from strogoff.cluster.membership.events import Booted, MembershipEvent
from strogoff.cluster.membership.lease import LeaseHolder
from strogoff.cluster.membership.messages import LeaseReply
from strogoff.cluster.membership.state_machine import MembershipState
from strogoff.cluster.membership.view import View

from .membership import Parts


class _NodesOnly(MembershipState):
    """A view of nodes without boots: a node that restarts unnoticed keeps its row (H-01)."""

    def _boot(self, command: Boot) -> tuple[MembershipEvent, ...]:  # type: ignore[override]
        known = self.members[command.node]
        self.members[command.node] = msgspec.structs.replace(known, boot=command.boot, process=command.process)
        rows = tuple(
            msgspec.structs.replace(row, boot=command.boot) if row.node == command.node else row
            for row in self.view.rows
        )
        self.view = View(self.view.id + 1, rows) if rows != self.view.rows else self.view
        return (Booted(command.node, command.boot),)


class ViewWithoutBoot(Parts):
    membership = _NodesOnly


class _Hasty(MembershipCoordinator):
    """A new leader assumes that the former leader has granted no leases (H-05)."""

    def elected(self, now_ms: float) -> None:
        super().elected(now_ms - self.settings.expiry_ms)


class NewLeaderDoesNotWait(Parts):
    coordinator = _Hasty


class _FromReceipt(LeaseHolder):
    """The lease begins when the reply arrives, not when the request was made."""

    def reply(self, reply: LeaseReply, now_ms: float) -> bool:
        taken = super().reply(reply, now_ms)
        if taken and self._begun and self._last:
            self._begun = self._last
        return taken


class LeaseFromReceipt(Parts):
    holder = _FromReceipt
    kinds = ("isolate", "one way out", "transfer", "pair cut")


class _OneStep(MembershipState):
    """A node serves as soon as it is in the view (H-04)."""

    def apply(self, index: int, data: bytes) -> tuple[MembershipEvent, ...]:
        command = decode_command(data)
        happened = super().apply(index, data)
        if isinstance(command, SetView):
            rows = tuple(Row(row.node, row.boot, row.entered_in_view, True) for row in self.view.rows)
            self.view = View(self.view.id, rows)
        return happened


class DirectJoin(Parts):
    membership = _OneStep


class AnsweredWithoutMajority(Parts):
    """A leader without a majority continues to grant leases (H-05)."""

    confirms = False
    kinds = ("isolate", "one way in")


class _NeverFrozen(LeaseHolder):
    """The node trusts the monotonic clock, and so does not notice that the machine was frozen."""

    def turn(self, now_ms: float, wall_ms: float) -> None:
        super().turn(now_ms, now_ms)

    def valid(self, now_ms: float, wall_ms: float) -> bool:
        return super().valid(now_ms, now_ms)

    def left_ms(self, now_ms: float, wall_ms: float) -> float:
        return super().left_ms(now_ms, now_ms)


class FreezeUnnoticed(Parts):
    holder = _NeverFrozen


class _RemovesAtOnce(MembershipCoordinator):
    """The leader removes a node from the view at once, without waiting for the end of its lease."""

    def expired(self, node: str, now_ms: float) -> bool:
        return now_ms - self.elected_ms >= self.settings.expiry_ms


class RemovedBeforeExpiry(Parts):
    coordinator = _RemovesAtOnce


PLANTS: dict[type[Parts], int] = {
    ViewWithoutBoot: 10,
    NewLeaderDoesNotWait: 20,
    LeaseFromReceipt: 40,
    DirectJoin: 10,
    AnsweredWithoutMajority: 60,
    FreezeUnnoticed: 20,
    RemovedBeforeExpiry: 10,
}
"""Planted bug -> the number of seeds within which a walk must find it."""

"""Parts of a member with one bug each, for `plants`."""

from __future__ import annotations

from typing import Any

from ...cluster.metadata.messages import Ack, MalformedMetadata, Writes
from ...cluster.metadata.messages import decode as decode_metadata
from ...cluster.views.lease import LeaseHolder
from ...cluster.views.view import View
from .machine import Machine


class FormerSelf(LeaseHolder):
    """Goes on in the row of whatever start of the node the view has."""

    def applied(self, view: View) -> None:
        """Takes that start's number for its own."""
        row = view.row(self.node)
        if row is not None:
            self.boot = row.boot
        super().applied(view)


class HearsEverybody(LeaseHolder):
    """Its pings come from beside the loop: it hears all that a ping reaches, and its disk always works."""

    others: tuple[str, ...] = ()

    def hears(self, now_ms: float) -> tuple[str, ...]:
        """All others."""
        return self.others

    def wants_commit(self, now_ms: float) -> bool:
        """No disk is asked."""
        self._committed = True
        return False


def acknowledged_first(machine: Machine) -> None:
    """Writes of metadata are acknowledged when they come, and applied half a second later."""
    member = machine.member
    assert member is not None
    metadata = member.metadata
    receive = metadata.receive

    def receiving(peer: str, data: bytes) -> None:
        try:
            message = decode_metadata(data)
        except MalformedMetadata:
            receive(peer, data)
            return
        if not isinstance(message, Writes):
            receive(peer, data)
            return
        upto = max(high for part in message.parts for _, _, high in part.claims)
        metadata._send(peer, Ack(metadata.boot, message.boot, upto))
        machine.later(0.5, lambda: receive(peer, data))

    metadata.receive = receiving  # type: ignore[method-assign]


def shared_window(machine: Machine) -> None:
    """What comes from a node is acknowledged once it has acknowledged all that went to it."""
    clustering: Any = machine.clustering
    acknowledge = clustering.receiving._acknowledge
    forwarding = clustering.forwarding

    def waiting(origin: str, *rest: Any) -> None:
        if forwarding._under_way.get(origin):
            machine.later(0.02, lambda: waiting(origin, *rest))
        else:
            acknowledge(origin, *rest)

    clustering.receiving._acknowledge = waiting

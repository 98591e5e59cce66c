"""Spreads the slots over the nodes: this node gives away the empty slots that another node should have.

`cluster/slots/handover.py` has the rules. This module watches table, view and sessions, and asks the leader. A slot
with durable sessions stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from ...cluster.membership.state_machine import MembershipState, zone_of
from ...cluster.slots.handover import Handover, Place, first_wanted, misplaced
from ...cluster.slots.table import Holder, SlotRow, ranges

REPEAT_MS = 1_000
"""How often a request is repeated: the datagram may be lost, and a new leader does not know it."""
LOOK_MS = 5_000
"""How often a node looks for slots that have become empty."""
AT_ONCE = 64
"""Rows in one request, about 100 bytes each. A node looks at this many slots in one turn."""


class SlotMember(Protocol):
    """What the handover needs of the cluster node."""

    @property
    def membership(self) -> MembershipState:
        """Members, view and table, as applied here."""
        ...

    @property
    def own_holder(self) -> Holder | None:
        """This process as a holder of slots; None while it is not in the view."""
        ...

    @property
    def slow(self) -> Collection[str]:
        """The nodes whose disk is slow."""
        ...

    @property
    def full(self) -> Collection[str]:
        """The nodes whose disk is full, or that are about to leave."""
        ...

    def leased(self) -> bool:
        """Whether this node may acknowledge now."""
        ...

    def request_slots(self, changes: tuple[SlotRow, ...]) -> None:
        """Ask the leader to change these rows. The request may be lost."""
        ...


class SlotHandover:
    """The handover at one node.

    `empty` returns which of these slots have no durable session and get none from another node. `when_safe` runs a
    function once all that was written so far is on the disks of this node and of the followers. `log` gets level and
    text.

    An empty slot may have had a session a moment ago. So the leader is asked when the deletion of its rows is safe:
    else a follower might become primary that has the session still (H-46).
    """

    def __init__(
        self,
        member: SlotMember,
        empty: Callable[[Collection[int]], list[int]],
        when_safe: Callable[[Callable[[], None]], object],
        log: Callable[[str, str], None],
    ) -> None:
        self._member = member
        self._empty = empty
        self._when_safe = when_safe
        self._log = log
        self.place: Place = first_wanted
        self._handover = Handover()
        self._unsafe: dict[int, object] = {}
        """Closed slots with writes that may not be safe yet; a new object for each time that a slot is closed."""
        self._requested_ms = self._looked_ms = 0.0
        self._from = 0

    @property
    def closed(self) -> Mapping[int, SlotRow]:
        """The slots in which no session may begin at this node."""
        return self._handover.closed

    def table_changed(self) -> None:
        """Table or view have changed: go on with the slots that are being handed over, and look for others."""
        membership = self._member.membership
        opened = self._handover.follow(membership.slots, self._member.own_holder, membership.holders())
        self._requested_ms = self._looked_ms = 0.0
        self._from = 0
        if opened:
            self._log("notice", f"slots {_texts(opened)} stay at this node: the node that should have them has left")

    def give(self, row: SlotRow, target: Holder) -> None:
        """Hand over a slot whose sessions the target has on its disk."""
        self._handover.close(row, target)
        self._requested_ms = 0.0

    def tick(self, now_ms: float) -> None:
        """Send and repeat requests, and look for empty slots. Call it often; `now_ms` is the monotonic clock."""
        if now_ms - self._looked_ms >= LOOK_MS and self._look():
            self._looked_ms = now_ms
        if self.closed and now_ms - self._requested_ms >= REPEAT_MS:
            self._requested_ms = now_ms
            requests = [row for row in self._handover.requests() if row.slot not in self._unsafe]
            for first in range(0, len(requests), AT_ONCE):
                self._member.request_slots(tuple(requests[first : first + AT_ONCE]))

    def misplaced(self) -> dict[int, str]:
        """Return slot -> the node that should have it, for the slots of this node that another should have and can get:
        a node with a slow or a full disk gets none, and a node that leaves neither. No session could begin in a slot
        that a node with a full disk has."""
        slow, full = self._member.slow, self._member.full
        return {slot: node for slot, node in self._elsewhere().items() if node not in slow and node not in full}

    def waiting_for_slow(self) -> set[str]:
        """Return the nodes that should have slots of this node, and do not get them because their disk is slow."""
        return set(self._elsewhere().values()).intersection(self._member.slow) if self._member.slow else set()

    def _elsewhere(self) -> dict[int, str]:
        membership, own = self._member.membership, self._member.own_holder
        if own is None:
            return {}
        zones = {node: zone_of(membership.members[node]) for node in membership.view.serving}
        return misplaced(membership.slots, own, zones, self.place) if zones else {}

    def _look(self) -> bool:
        """Close some empty slots that another node should have. Returns False if there may be more."""
        member, membership = self._member, self._member.membership
        own, view = member.own_holder, membership.view
        if own is None or own.node not in view.serving or not member.leased():
            return False
        wanted = self.misplaced()
        slots = [slot for slot in wanted if slot >= self._from and slot not in self.closed][:AT_ONCE]
        self._from = slots[-1] + 1 if len(slots) == AT_ONCE else 0
        present = membership.holders()
        given: dict[str, list[int]] = {}
        for slot in self._empty(slots):
            self._handover.close(membership.slots.row(slot), present[wanted[slot]])
            given.setdefault(wanted[slot], []).append(slot)
        for node, some in given.items():
            self._log("info", f"this node gives {node} the empty slots {_texts(some)}")
        if given:
            closing = object()
            self._unsafe.update({slot: closing for some in given.values() for slot in some})
            self._when_safe(lambda: self._safe(closing))
        return not self._from

    def _safe(self, closing: object) -> None:
        self._unsafe = {slot: each for slot, each in self._unsafe.items() if each is not closing}
        self._requested_ms = 0.0


def _texts(slots: list[int]) -> str:
    return " ".join(ranges(slots))

"""Spreads the slots with sessions over the nodes, after a node has come back or joined (docs/cluster.md#balancing).

    off        the configuration says so, or slots have one copy: then a move would copy all rows
    waits      a slot should move, but something speaks against a move now (`SlotBalance.why_not`)
    moves      one slot moves to the node that the placement names
    balanced   no slot of this node should move

Each primary decides about its own slots; `slots/balance.py` says which of them should move. A move closes the
connections of a slot's clients. So one slot of a node moves at a time, the slot with the fewest connections first, and
the next one when each slot has all its copies again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sized
from math import inf
from typing import NamedTuple

from ...cluster.node import ClusterNode
from ...cluster.slots.balance import lacking_copies, may_move
from ...cluster.slots.table import ranges
from ..node import Node
from .slot_departure import FILLING, Departure
from .slot_handover import SlotHandover
from .slot_moves import SlotMoves

AUTO = "auto"
"""The value of `queue_balance` with which slots with two copies move by themselves."""
LOOK_MS = 1_000
"""How often a node looks whether a slot should move."""
CLOSINGS_PER_S = 500
"""Connections that a balancing closes in a second, on average: their clients connect again at once."""
HOLD_MS = 10_000
"""How long no slot moves by itself after an operator has moved one at this node."""


class _PresentView(NamedTuple):
    """The view that this node has applied: its id, and the log index that set it."""

    id: int
    set_at: int


class SlotBalance:
    """The balancing at one node. `lacking` returns the slots of this node that have to get a copy. `unknown` says what
    the registrar does not know yet of the clients of a slot; "" if nothing."""

    def __init__(
        self,
        node: Node,
        member: ClusterNode,
        handover: SlotHandover,
        moves: SlotMoves,
        lacking: Callable[[], Sized],
        unknown: Callable[[int], str],
    ) -> None:
        self._node = node
        self._member = member
        self._handover = handover
        self._moves = moves
        self._lacking = lacking
        self._unknown = unknown
        self.leaving = False
        """This node leaves the cluster, or takes no clients any more."""
        self.moving: int | None = None
        """The slot that moves because of the balancing."""
        self._departure: Departure | None = None
        self._view = _PresentView(0, 0)
        self._steady_since_ms = inf
        """The last time at which the view changed, or some member did not serve or took no slots."""
        self._next_ms = self._held_ms = -inf
        self._stayed: dict[int, str] = {}
        """Slots whose clients were disconnected although they stay: they are not tried again in this view."""
        self._moved: Counter[str] | None = None
        """Node -> slots that it has got by this balancing; None while there is none."""

    # -- for operators

    @property
    def enabled(self) -> bool:
        """Whether slots with sessions move by themselves."""
        options = self._node.options
        return options.queue_balance == AUTO and options.queue_replicas > 1

    def hold(self) -> None:
        """An operator moves a slot of this node: begin no other move for a while."""
        self._held_ms = self._member.ports.now_ms() + HOLD_MS
        if self.moving is not None:
            self._moves.cancel("an operator moves slots")

    @property
    def state(self) -> str:
        """What the balancing does at this node, as a sentence without a full stop."""
        if not self.enabled:
            why = "queue_replicas = 1" if self._node.options.queue_replicas < 2 else "queue_balance = manual"
            return f"off: {why}"
        if self.moving is not None and self._departure is not None:
            return f"slot {self.moving} moves to {self._departure.target.node}"
        count = len(self._wanted())
        if not count:
            return f"balanced, but {why}" if (why := self._why_stayed()) else "balanced"
        return f"{count} slots wait: {self.why_not() or 'the next one moves soon'}"

    def _why_stayed(self) -> str:
        """Return why slots stay that no move waits for; "" if there are none."""
        slow = sorted(self._handover.waiting_for_slow())
        if slow:
            return f"{' and '.join(slow)} gets no slots: its disk is slow"
        return next(iter(self._stayed.values()), "")

    # -- the rules

    def _wanted(self) -> dict[int, str]:
        """Slot -> the node that should have it, for the slots that this node should give away, also empty ones."""
        found = may_move(self._handover.misplaced(), self._member.slots, self._view.set_at)
        return {slot: node for slot, node in found.items() if slot not in self._stayed}

    def why_not(self) -> str:
        """Return why no slot of this node may move now; "" if one may."""
        return self._obstacle() or self._pause()

    def _obstacle(self) -> str:
        """Return what ends a balancing; "" if nothing."""
        node, member, policy = self._node, self._member, self._node.policy
        if node.closing or policy.stops_soon or self.leaving:
            return "this node stops or leaves"
        if disturbed := self._disturbed():
            return disturbed
        if node.env.store.state != "serving" or not node.sessions.startup.complete:
            return "this node is loading its sessions, or its disk takes no writes"
        steady_ms = member.ports.now_ms() - self._steady_since_ms
        wait_s = node.options.queue_balance_wait_s
        if steady_ms < wait_s * 1000:
            return f"the cluster changed {max(0.0, steady_ms) / 1000:.0f} s ago, {wait_s} s must pass"
        return ""

    def _disturbed(self) -> str:
        """Return why not all members serve and take slots; "" if they do."""
        member = self._member
        own, serving = member.own_holder, member.view.serving
        if own is None or own.node not in serving or not member.leased():
            return "this node does not serve"
        others = [name for name in sorted(member.membership.members) if name != own.node]
        if absent := [name for name in others if name not in serving or not member.links.up(name)]:
            return f"{' and '.join(absent)} must serve first"
        if member.full:
            return f"{' and '.join(member.full)} takes no slots: its disk is full, or it leaves"
        return ""

    def _pause(self) -> str:
        """Return what lets a balancing wait before its next slot; "" if nothing."""
        member = self._member
        if member.ports.now_ms() < self._held_ms:
            return "an operator moves slots"
        copies = min(self._node.options.queue_replicas, len(member.view.serving))
        if lacking := lacking_copies(member.slots, copies):
            return f"the slots {' '.join(ranges(lacking))} have too few copies"
        if self._lacking():
            return "copies of slots of this node are being made"
        if self._moves.departure is not None:
            return "another slot of this node moves"
        return ""

    # -- what happens

    def follow(self) -> None:
        """The view may have changed."""
        view = self._member.view
        if view.id != self._view.id:
            self._view = _PresentView(view.id, self._member.membership.index)
            self._steady_since_ms = self._member.ports.now_ms()
            self._stayed.clear()

    def tick(self) -> None:
        """Begin the next move if it is time for it. Call it often."""
        self.follow()
        now_ms = self._member.ports.now_ms()
        if now_ms < self._next_ms or not (self.enabled or self._moved is not None):
            return
        self._next_ms = now_ms + LOOK_MS
        if self._disturbed():
            self._steady_since_ms = now_ms
        obstacle = self._obstacle() if self.enabled else self.state
        if self.moving is not None:
            if obstacle:
                self._moves.cancel(obstacle)
        elif obstacle:
            self._end(obstacle)
        elif not (wanted := self._wanted()):
            self._end("")
        elif not self._pause():
            self._next(wanted)

    def _next(self, wanted: dict[int, str]) -> None:
        """Begin to move the slot with the fewest connections, of those with sessions."""
        empty = self._node.sessions.empty(wanted)  # the handover gives them away
        wanted = {slot: wanted[slot] for slot in wanted.keys() - set(empty) if slot not in self._handover.closed}
        if not wanted:
            self._end("")
            return
        known = [slot for slot in wanted if not self._unknown(slot)]
        if not known:
            return
        if self._moved is None:
            self._begin(wanted)
        connections = {slot: self._node.slot_sessions.connections(slot) for slot in known}
        slot = min(known, key=lambda slot: (connections[slot], slot))
        self._move(slot, wanted[slot], connections[slot])

    def _begin(self, wanted: Mapping[int, str]) -> None:
        self._moved = Counter()
        targets = " and ".join([f"{count} to {node}" for node, count in sorted(Counter(wanted.values()).items())])
        self._node.env.event("slot.balance", count=len(wanted), slots=ranges(wanted))
        self._node.env.log(
            "info",
            f"this node gives slots with sessions to the nodes that should have them: {targets}. All members have "
            f"served for {self._node.options.queue_balance_wait_s} s",
        )

    def _move(self, slot: int, target: str, connections: int) -> None:
        self.moving, self._departure = slot, None
        self._moves.begin(slot, target, lambda problem: self._ended(slot, target, connections, problem))
        if self.moving is not None:
            self._departure = self._moves.departure

    def _ended(self, slot: int, target: str, connections: int, problem: str) -> None:
        departure, self.moving, self._departure = self._departure, None, None
        self._next_ms = self._member.ports.now_ms() + max(LOOK_MS, 1000 * connections / CLOSINGS_PER_S)
        if not problem and self._moved is not None:
            self._moved[target] += 1
        elif departure is not None and departure.phase != FILLING:
            self._stayed[slot] = problem

    def _end(self, obstacle: str) -> None:
        """No slot moves any more: none should, or there is an obstacle."""
        if self._moved is None:
            return
        moved, self._moved = self._moved, None
        text = f"{moved.total()} slots with sessions have moved to {' and '.join(sorted(moved)) or 'no node'}"
        reason = obstacle or next(iter(self._stayed.values()), "")
        self._node.env.event("slot.balanced", count=moved.total(), **({"reason": reason} if reason else {}))
        rest = f"; others stay for now: {reason}" if reason else ": all are in place"
        self._node.env.log("info", text + rest)

"""Gives away all slots with sessions of a node that leaves the cluster, one after the other.

Each slot goes to the node that the placement names among the other serving ones. A slot that stays, with the reason, is
tried again after all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from ...cluster.membership.state_machine import MembershipState, zone_of
from ...cluster.slots.handover import first_wanted

BETWEEN_S = 0.1
"""The pause between two slots. A message for many slots waits for each that is moving: here it gets through."""
PAUSE_S = 0.2
"""The pause before the next attempt if no slot could move."""

Begin = Callable[[int, str, Callable[[str], None]], None]
"""`SlotMoves.begin`."""


def outcome_of(begin: Begin, slot: int, target: str) -> asyncio.Future[str]:
    """Begin to move a slot. The future gets the reason why the slot stays, or ""."""
    outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    begin(slot, target, lambda text: None if outcome.done() else outcome.set_result(text))
    return outcome


class SlotEvacuation:
    """The slots of one node. `empty` returns which of these slots have no durable session. `sessions` counts the
    durable sessions of the node. No slot moves to the nodes that `full` returns."""

    def __init__(
        self,
        node: str,
        membership: Callable[[], MembershipState],
        empty: Callable[[Collection[int]], list[int]],
        sessions: Callable[[], int],
        begin: Begin,
        full: Callable[[], Collection[str]],
    ) -> None:
        self._node = node
        self._membership = membership
        self._empty = empty
        self._sessions = sessions
        self._begin = begin
        self._full = full
        self.moved = 0
        self.problem = ""
        """Why the last slot that stayed has stayed."""

    def remaining(self) -> list[int]:
        """The slots that this node still has to give away: it is their primary, and they have sessions."""
        if not self._sessions():
            return []
        own = self._membership().slots.slots_by_primary.get(self._node, ())
        empty = set(self._empty(own))
        return [slot for slot in own if slot not in empty]

    @property
    def progress(self) -> str:
        """How far it is, for operators."""
        text = f"{self._node} gives its sessions away: {self.moved} slots have moved, {len(self.remaining())} remain"
        return f"{text} ({self.problem})" if self.problem else text

    async def run(self, limit_s: float) -> None:
        """Move slots until no session remains, no other node serves, or the time is over.

        The sessions of a slot that has moved still count until their rows are deleted here (`SlotLeftovers`).
        """
        now = asyncio.get_running_loop().time
        end = now() + limit_s
        while self._sessions() and now() < end:
            slots = self.remaining()
            before = self.moved
            for slot in slots:
                target = self._target(slot)
                if not target:
                    self.problem = "no other node serves, or those that do take no slots"
                    return
                if now() >= end:
                    return
                self.problem = await self._move(slot, target) or self.problem
            if self.moved == before:
                await asyncio.sleep(PAUSE_S)
            else:
                self.problem = ""

    def _target(self, slot: int) -> str:
        membership, full = self._membership(), self._full()
        able = [name for name in membership.view.serving if name != self._node and name not in full]
        zones = {name: zone_of(membership.members[name]) for name in able}
        return first_wanted(slot, zones) if zones else ""

    async def _move(self, slot: int, target: str) -> str:
        """Move one slot; every move ends. Returns the reason why it stays, or ""."""
        problem = await outcome_of(self._begin, slot, target)
        self.moved += not problem
        await asyncio.sleep(BETWEEN_S)
        return problem

"""One copy of a message for another node, and the lanes that take it there."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from typing import Protocol

import msgspec

from ..queues.message import Message
from ..routing.pending_acks import PendingAcks
from ..routing.remote import RemoteMembers


class PublishLanes(Protocol):
    """The port to the links: one lane of publishes to each node, contiguous and acknowledged."""

    slow: Collection[str]
    """The nodes for which too many publishes wait; absent nodes are included."""
    slow_map: Collection[str]
    """The nodes for which too many writes of the replicated map wait."""
    full: Collection[str]
    """The nodes whose lane must get no item until `ForwardSender.room` is called."""
    window_bytes: int
    """The most bytes that are sent to a node and not acknowledged."""
    ahead_bytes: int
    behind_bytes: int
    """If more than `behind_bytes` wait for a full lane, a publisher with more than `ahead_bytes` of it is not read."""

    def send(self, node: str, payload: bytes) -> int:
        """Send an item now, and after every reconnect until it is acknowledged. Returns its number in the lane."""
        ...

    def void(self, node: str, seqs: list[int] | None = None) -> None:
        """Cancel these items (None: all). The lane keeps their numbers, as voids."""
        ...

    def beside(self, node: str, items: int, size_bytes: int) -> None:
        """Report how much waits until the lane has room. It counts for `slow` like items in the lane."""
        ...


COPY_BYTES = 64
"""Bytes that a copy counts in addition to its payload."""


class OutstandingForward(msgspec.Struct, eq=False):
    """One copy that is not acknowledged, number `seq` of its lane.

    `live`: it is for the clean sessions at the node; `slots`: for the durable sessions of these slots; `groups`: for
    the shared subscriptions that chose the node. `number` as in `forward_codec.Head`, 0 before it has entered a lane.
    `kept` says that the copy must arrive whatever happens: this node answered its publisher without a lease, or no
    publisher waits for it (a will, a message that a leaving member of a shared subscription had), or this node relays
    it for another origin, which has its own lease. `again` as in `forward_codec.Head`.
    """

    seq: int
    message: Message
    pending: PendingAcks | None
    live: bool
    slots: tuple[int, ...]
    groups: Sequence[RemoteMembers]
    kept: bool = False
    disk_bytes: int = 0
    """Its part of `SlowNodes.disk_bytes`."""
    number: int = 0
    again: bool = False
    opens: bool = False
    """Whether its sender holds the mid open for it."""

    @property
    def durable(self) -> bool:
        """True if the copy is for durable sessions, apart from its groups."""
        return bool(self.slots)

    @property
    def for_others(self) -> bool:
        """True if another node may get the message in the end: another member of a group, or a slot that moves."""
        return bool(self.groups or self.slots)

    def lacks_members(self, moved: Container[int]) -> bool:
        """True if the copy is for groups alone, and these slots of theirs have left its node."""
        slots = [slot for member in self.groups for slot in member.slots]
        return not (self.live or self.slots) and any(slot in moved for slot in slots)

"""Identities in a cluster: incarnations of nodes, slots of client ids, and globally unique numbers."""

from __future__ import annotations

from typing import Annotated, NamedTuple
from zlib import crc32

from msgspec import Meta

SLOTS = 256
"""Number of slots, the same in every cluster."""

Slot = Annotated[int, Meta(ge=0, lt=SLOTS)]
BootNumber = Annotated[int, Meta(ge=0, lt=1 << 32)]
"""A boot in a message of another node: keys on disk have 4 bytes for it."""
NAME_MOST = 0xFFFF // 4
"""The most characters of a node's name. Keys on disk have 2 bytes for the length of its UTF-8."""
NodeName = Annotated[str, Meta(max_length=NAME_MOST)]


class Incarnation(NamedTuple):
    """A node's stay in the view, from entering until it leaves or restarts (H-01).

    `boot` counts the starts of the node, as the Raft log has them. `entered_in_view` is the id of the view in which it
    entered. A node that restarts, or that left the view and comes back, is another incarnation.
    """

    node: str
    boot: int
    entered_in_view: int


def slot_of(mountpoint: str, client_id: str) -> int:
    """The slot, 0 to 255, that a client id belongs to: the same on every node and after every restart."""
    return crc32(f"{mountpoint}\0{client_id}".encode()) % SLOTS


class Numbers:
    """Numbers that no process of this node used before: the boot, raised durably at each start, and a counter."""

    __slots__ = ("boot", "counter")

    def __init__(self, boot: int) -> None:
        assert 0 < boot < 1 << 32, boot
        self.boot = boot
        self.counter = 0

    def next(self) -> int:
        """Returns the next counter of this boot, the third part of a `mid`."""
        self.counter += 1
        return self.counter

    def unique(self) -> int:
        """Returns a 64-bit number that is larger than every earlier one of this node, across restarts."""
        return self.boot << 32 | self.next()

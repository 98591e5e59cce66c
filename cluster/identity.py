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


def slot_origin(slot: int) -> str:
    """The name of a slot as the origin of a mid. No node has such a name."""
    return f"#{slot}"


def slot_of_origin(origin: str) -> int:
    """The slot with this name as the origin of a mid; -1 for a node."""
    return int(origin[1:]) if origin[:1] == "#" else -1


MARKED = 1 << 40
"""From here on the lowest bit of the counter in a mid says whether event logs have rows about its message: 0 yes, 1 no.
Smaller counters say nothing, and event logs have their rows: all mids of earlier versions are so. Counters jump here
with the first message without rows, so that short ones stay short where all messages have rows."""


def following(counter: int, has_rows: bool) -> int:
    """Returns the counter of the next mid behind this one. `has_rows`: event logs have rows about its message."""
    counter += 1
    if has_rows and counter < MARKED:
        return counter
    counter = max(counter, MARKED)
    return counter + (counter & 1 == has_rows)


def left_out(counter: int) -> bool:
    """Whether event logs have no rows about the message with this counter in its mid."""
    return counter >= MARKED and counter & 1 == 1


class Numbers:
    """Numbers that no process of this node used before: the boot, raised durably at each start, and counters."""

    __slots__ = ("_unique", "boot", "counter")

    def __init__(self, boot: int) -> None:
        assert 0 < boot < 1 << 32, boot
        self.boot = boot
        self.counter = 0
        self._unique = 0

    def next(self, has_rows: bool = True) -> int:
        """Returns the next counter of this boot, the third part of a `mid`. `has_rows` as in `following`."""
        self.counter = following(self.counter, has_rows)
        return self.counter

    def unique(self) -> int:
        """Returns a 64-bit number that is larger than every earlier one of this node, across restarts."""
        self._unique += 1
        return self.boot << 32 | self._unique

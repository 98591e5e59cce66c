"""The writers of the map. One boot of one node is an actor, because after a power loss a node may reuse counters.

A dot, the name of one write, is the actor's number in this process and the write's counter in one integer. Numbers of
actors differ between processes; on the wire and on the disk an actor is its node and boot.
"""

from __future__ import annotations

from zlib import crc32

SHIFT = 44
COUNTER = (1 << SHIFT) - 1
"""Mask of the counter. A dot is `actor << SHIFT | counter`; with fewer than 65,536 actors it fits 60 bits."""

Writer = tuple[str, int]
"""Node and boot."""


def dot_of(actor: int, counter: int) -> int:
    """Returns the dot of one write of an actor."""
    return actor << SHIFT | counter


class Actors:
    """The numbers of all actors that this process has heard of. A number is never used again."""

    __slots__ = ("_numbers", "checksums", "latest", "names")

    def __init__(self) -> None:
        self.names: list[Writer] = []
        self.checksums: list[int] = []
        """Of the names, the same on every node."""
        self.latest: dict[str, int] = {}
        """The last boot of each node."""
        self._numbers: dict[Writer, int] = {}

    def number(self, node: str, boot: int) -> int:
        """Returns the number of an actor; the first call for an actor gives it a new one."""
        writer = (node, boot)
        number = self._numbers.get(writer)
        if number is None:
            number = self._numbers[writer] = len(self.names)
            self.names.append(writer)
            self.checksums.append(crc32(f"{node}/{boot}".encode()))
            self.latest[node] = max(boot, self.latest.get(node, 0))
        return number

    def writer(self, dot: int) -> Writer:
        """Returns the node and boot that made a dot."""
        return self.names[dot >> SHIFT]

"""The interface of a source of discovery. A source names addresses where other nodes may be, and may decide which node
founds the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

Say = Callable[[str], None]
"""Logs a sentence without a full stop as a warning, but not again while the same problem lasts."""


class Announcement(Struct, frozen=True):
    """What a source may tell other nodes of this one: its name, HOST:PORT where they reach it, the id of its disk, and
    the number of this start."""

    node: str
    address: str
    disk: str
    boot: int


class Seen(Struct, frozen=True):
    """What a source names now. `addresses` are HOST:PORT, with or without that of this node. `problems` are sentences
    without a full stop. `unsure`: the source does not answer now, so there may be more nodes."""

    addresses: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    unsure: bool = False


class Source(Protocol):
    """Names addresses. `key` is the key of the configuration that asks for it, for texts."""

    key: str

    def begin(self, me: Announcement, say: Say) -> None:
        """Begin to look. Called once, before all other methods, on the event loop."""

    async def look(self) -> Seen:
        """Return what there is now. Does not raise, and takes a few seconds at most. The caller says the problems."""

    async def claim(self) -> str:
        """Return "" if this node may found a cluster, as far as this source knows, otherwise the reason."""

    def overrule(self) -> None:
        """This node founds a cluster because an operator has asked for it, whatever `claim` says."""

    async def close(self) -> None:
        """End what `begin` has begun."""


class Lookup:
    """A source that has nothing to announce, and lets every node found that the others let found."""

    def begin(self, me: Announcement, say: Say) -> None:
        """As `Source.begin`."""

    async def claim(self) -> str:
        """As `Source.claim`."""
        return ""

    def overrule(self) -> None:
        """As `Source.overrule`."""

    async def close(self) -> None:
        """As `Source.close`."""

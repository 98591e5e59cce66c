"""Dotted version vector sets: the siblings of one key, and how two copies of a key are merged.

After "Dotted Version Vector Sets" (Almeida, Baquero, Goncalves, Preguica, Fonte 2014) and its continuation with node
clocks ("Concise Server-Wide Causality Management", Goncalves et al. 2017). A value is named by the dot of its write. A
copy of a key is its siblings plus a causal context, the set of dots that it has seen: of those dots, the ones without a
value here have been overwritten. Comparing two copies needs nothing else:

    a value on both sides stays; a value on one side stays unless the other side has seen its dot.

The context is not stored with the key. It is the clock of the whole map (`version_vector.py`), which holds every dot
that the node has seen of any key, so the ordinary key costs one dot and one value. A deletion is a value too, `None`,
until every member has seen its dot.

Siblings are one flat tuple `(dot, value, dot, value, ...)` in the order of dots: no key needs an object of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

Siblings = tuple[Any, ...]
"""`(dot: int, value: bytes | None, ...)`, by dot."""

NOTHING: Siblings = ()


class Context(Protocol):
    """A set of dots."""

    def covers(self, dot: int) -> bool:
        """Whether the dot has been seen."""
        ...


class Dots:
    """A context of single dots: a reader gets it with the values and passes it with its next write."""

    __slots__ = ("_dots",)

    def __init__(self, dots: Iterable[int]) -> None:
        self._dots = frozenset(dots)

    def covers(self, dot: int) -> bool:
        """Whether the dot is one of them."""
        return dot in self._dots


def sync(mine: Siblings, my_context: Context, theirs: Siblings, their_context: Context) -> Siblings:
    """Merge two copies of a key: commutative, associative, idempotent. Its context is the union of both contexts."""
    if mine == theirs:
        return mine
    kept: list[tuple[int, bytes | None]] = []
    their_dots = theirs[::2]
    my_dots = mine[::2]
    for dot, value in pairs(mine):
        if dot in their_dots or not their_context.covers(dot):
            kept.append((dot, value))
    for dot, value in pairs(theirs):
        if dot not in my_dots and not my_context.covers(dot):
            kept.append((dot, value))
    return _flat(kept)


def event(siblings: Siblings, context: Context, value: bytes | None, dot: int) -> Siblings:
    """Returns the siblings after a write that has seen `context`: it replaces the seen siblings, the others stay."""
    return _flat([*pairs(discard(siblings, context)), (dot, value)])


def discard(siblings: Siblings, context: Context) -> Siblings:
    """Returns the siblings that a context has not seen."""
    return _flat([(dot, value) for dot, value in pairs(siblings) if not context.covers(dot)])


def without(siblings: Siblings, dot: int) -> Siblings:
    """Returns the siblings without the one with this dot."""
    return _flat([(other, value) for other, value in pairs(siblings) if other != dot])


def join(siblings: Siblings) -> Dots:
    """Returns the context of a reader of these siblings: a write with this context replaces them."""
    return Dots(siblings[::2])


def pairs(siblings: Siblings) -> list[tuple[int, bytes | None]]:
    """Returns the siblings as (dot, value)."""
    return list(zip(siblings[::2], siblings[1::2], strict=True))


def values(siblings: Siblings) -> list[bytes]:
    """Returns the values that a reader sees, without deletions."""
    return [value for value in siblings[1::2] if value is not None]


def _flat(entries: list[tuple[int, bytes | None]]) -> Siblings:
    if len(entries) == 1:
        return entries[0]
    if len(entries) > 1:
        entries.sort(key=lambda entry: entry[0])
    return tuple(part for entry in entries for part in entry)

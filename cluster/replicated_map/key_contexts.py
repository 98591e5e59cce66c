"""Contexts of single keys beyond the node clock.

A copy of a key from a peer has seen everything in the peer's clock, which may be more than the local clock has seen. So
a write may arrive here, through a third node, before the write that it replaced. When the older write arrives, this
node must ignore it. Therefore the node keeps the peer's clock for that key until the local clock has caught up, and
sends it along with the key.

Entries are kept in two generations, so that removal costs one comparison and not one for each key. The older generation
is removed when the local clock has seen everything in its contexts; then the younger generation takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable

from .actors import Actors
from .version_vector import VersionVector


class KeyContexts:
    """Key -> contexts beyond the clock."""

    __slots__ = ("_actors", "_old", "_old_top", "_young", "_young_top")

    def __init__(self, actors: Actors) -> None:
        self._actors = actors
        self._old: dict[bytes, VersionVector] = {}
        self._young: dict[bytes, VersionVector] = {}
        self._old_top = VersionVector(actors)
        self._young_top = VersionVector(actors)

    def __len__(self) -> int:
        return len(self._old) + len(self._young)

    def note(self, keys: Iterable[bytes], context: VersionVector) -> None:
        """Record that all these keys have seen `context`. The caller must not change `context` any more."""
        young = self._young
        shared: list[VersionVector] = []  # keeps the clocks alive, so that each id stays unique
        joins: dict[int, VersionVector] = {}  # the keys of a step share few contexts: join each of them only once
        for key in keys:
            known = young.get(key)
            if known is not None and known is not context:
                joined = joins.get(id(known))
                if joined is None:
                    joined = joins[id(known)] = known.copy()
                    joined.join(context)
                    shared.append(known)
                young[key] = joined
            else:
                young[key] = context
        self._young_top.join(context)

    def covers(self, key: bytes, dot: int) -> bool:
        """Whether a context of the key has seen the dot, although the clock has not."""
        old, young = self._old.get(key), self._young.get(key)
        return (old is not None and old.covers(dot)) or (young is not None and young.covers(dot))

    def context(self, key: bytes) -> VersionVector | None:
        """Returns the context of a key beyond the clock; None if it has none."""
        old, young = self._old.get(key), self._young.get(key)
        if old is None or young is None:
            return old or young
        joined = old.copy()
        joined.join(young)
        return joined

    def covered_by(self, clock: VersionVector) -> bool:
        """Whether the clock has seen everything in all contexts, those that were noted for no key included."""
        return clock.dominates(self._old_top) and clock.dominates(self._young_top)

    def retire(self, clock: VersionVector) -> None:
        """Remove contexts that the clock has caught up with."""
        if not clock.dominates(self._old_top):
            return
        if self._old or self._young:
            self._old, self._old_top = self._young, self._young_top
            self._young, self._young_top = {}, VersionVector(self._actors)

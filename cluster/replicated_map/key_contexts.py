"""What is known of single keys beyond the node clock.

A copy of a key that comes from a peer has seen all that the peer's clock has seen, and that may be more than ours: a
write may arrive here before the one that it replaced, by way of a third node. When that one arrives it must not rise.
So the peer's clock is remembered for that key until ours has caught up with it, and goes along with the key to others.

Entries are kept in two generations, so that forgetting costs one comparison and not one per key: the older generation
goes when our clock has everything that any of its contexts has seen, and the younger takes its place.
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
        """All these keys have seen `context`. The context is shared: nobody may change it any more."""
        young = self._young
        shared: list[VersionVector] = []  # keeps them alive, so that an id stays one clock's
        joins: dict[
            int, VersionVector
        ] = {}  # the keys of a step share the few contexts that they had, and so they go on
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
        """Whether a dot of a key is known to have been overwritten, or is here, although the clock has not seen it."""
        old, young = self._old.get(key), self._young.get(key)
        return (old is not None and old.covers(dot)) or (young is not None and young.covers(dot))

    def context(self, key: bytes) -> VersionVector | None:
        """All that a key has seen beyond the clock; None when it is nothing."""
        old, young = self._old.get(key), self._young.get(key)
        if old is None or young is None:
            return old or young
        joined = old.copy()
        joined.join(young)
        return joined

    def retire(self, clock: VersionVector) -> None:
        """Forget what the clock has caught up with."""
        if self._old and not clock.dominates(self._old_top):
            return
        if self._old or self._young:
            self._old, self._old_top = self._young, self._young_top
            self._young, self._young_top = {}, VersionVector(self._actors)

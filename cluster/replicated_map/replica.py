"""One half of the map, durable or volatile: keys, their siblings, and the clock that is the context of all of them.

The main invariant: for every dot in the clock, the dot's value is among the siblings of its key, or a later write has
replaced it. So if a peer sends a value whose dot is in the clock, and the value is not here, the value is old.

Keys are in `BUCKETS` dicts by a checksum that is the same on every node. So the whole map can be walked, here or
against a peer, in steps of a few hundred keys, without an order of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from zlib import crc32

from . import dvv
from .actors import COUNTER, SHIFT, Actors, dot_of
from .dot_log import DotLog
from .dvv import NOTHING, Siblings
from .key_contexts import KeyContexts
from .version_vector import VersionVector

BUCKETS = 4096
_EMPTY: dict[bytes, Siblings] = {}
"""Shared by all buckets that have had no key; never written to."""
_BITS = (1 << 64) - 1
_ODD = 0xD6E8FEB86659FD93


class _Seen:
    """The context of one key: the clock and what is known beyond it."""

    __slots__ = ("_ahead", "_clock", "_key")

    def __init__(self, clock: VersionVector, key_contexts: KeyContexts, key: bytes) -> None:
        self._clock, self._ahead, self._key = clock, key_contexts, key

    def covers(self, dot: int) -> bool:
        return self._clock.covers(dot) or self._ahead.covers(self._key, dot)


class Replica:
    """The state of one half. `changed(key, before, after)` is called for every change of a key's siblings."""

    __slots__ = (
        "_actors", "_left_out", "buckets", "bytes", "changed", "clock", "digest", "held", "key_contexts", "keys", "log",
        "tombstones",
    )  # fmt: skip

    def __init__(
        self, actors: Actors, changed: Callable[[bytes, Siblings, Siblings], None], left_out: Collection[int] = ()
    ) -> None:
        self._actors = actors
        self._left_out = left_out
        self.changed = changed
        self.buckets: list[dict[bytes, Siblings]] = [_EMPTY] * BUCKETS
        self.clock = VersionVector(actors)
        self.key_contexts = KeyContexts(actors)
        self.log = DotLog()
        self.held: dict[int, int] = {}
        """Actor and namespace (first byte of the key) -> number of siblings that the actor wrote, deletions
        included."""
        self.keys = 0
        self.tombstones = 0
        self.bytes = 0
        self.digest = 0
        """64 bits that depend on keys and the dots of their values, on every node alike. Deletions do not count, nor
        keys whose first byte is in `left_out`: nodes forget these at different times."""

    def siblings(self, key: bytes) -> Siblings:
        """Returns the siblings of a key."""
        return self.buckets[crc32(key) % BUCKETS].get(key, NOTHING)

    def size(self, key: bytes) -> int:
        """Bytes of a key and its values."""
        return len(key) + sum([len(value) for value in self.siblings(key)[1::2] if value is not None])

    def key_context(self, key: bytes) -> VersionVector | None:
        """Returns the context of a key beyond the clock, which a node sends along with the key."""
        return self.key_contexts.context(key) if len(self.key_contexts) else None

    @property
    def settled(self) -> bool:
        """Whether what is in force follows from the clock alone: it covers the clocks of all peers that had a part in
        it."""
        return self.key_contexts.covered_by(self.clock)

    def walk(self) -> Iterator[tuple[bytes, Siblings]]:
        """Yields (key, siblings) bucket by bucket; copies each bucket when it reaches it."""
        for bucket in self.buckets:
            if bucket:
                yield from list(bucket.items())

    def write(self, key: bytes, dot: int, value: bytes | None) -> None:
        """Apply a write of this node: it replaces all siblings that are here."""
        actor, counter = dot >> SHIFT, dot & COUNTER
        self.clock.add(actor, counter - 1, counter)
        self.log.add(actor, counter, key)
        self._set(key, self.siblings(key), (dot, value))

    def merge(self, key: bytes, theirs: Siblings, context: VersionVector) -> bool:
        """Merge a peer's copy of a key that has seen `context`. Returns whether anything changed."""
        mine = self.siblings(key)
        if mine == theirs:
            return False
        seen = _Seen(self.clock, self.key_contexts, key) if len(self.key_contexts) else self.clock
        if not mine and len(theirs) == 2:  # the ordinary case, in a fifth of the time
            merged = mine if seen.covers(theirs[0]) else theirs
        else:
            merged = dvv.sync(mine, seen, theirs, context)
        if merged == mine:
            return False
        self._set(key, mine, merged)
        return True

    def mark(self, key: bytes, dots: Iterable[int]) -> None:
        """Add the dots of a peer's copy to the clock, and to the log if they are still siblings.

        At or below the floor of the log all members have seen the dot: a deletion is removed at once, as `collect` does
        with those in the log.
        """
        clock = self.clock
        for dot in dots:
            actor, counter = dot >> SHIFT, dot & COUNTER
            if clock.add(actor, counter - 1, counter) or (actor in clock.seen and dot in self.siblings(key)[::2]):
                self.log.add(actor, counter, key)
                if counter <= self.log.floor.get(actor, 0):
                    self._forget_deletion(key, dot)

    def restore(self, key: bytes, siblings: Siblings) -> None:
        """Restore siblings read from disk, without merging."""
        self._count(key, NOTHING, siblings)
        self._bucket(key)[key] = siblings
        for dot in siblings[::2]:
            if not self.clock.is_folded(dot >> SHIFT):
                self.log.add(dot >> SHIFT, dot & COUNTER, key)

    def forget(self, key: bytes, dot: int) -> None:
        """Remove a sibling. Its dot stays in the clock, so that a peer's copy is ignored."""
        mine = self.siblings(key)
        if dot in mine[::2]:
            self._set(key, mine, dvv.without(mine, dot))

    def collect(self, actor: int, high: int, limit: int) -> bool:
        """Trim the log of an actor up to `high`, at most `limit` dots, with deletions. Returns whether more is left."""
        entries = self.log.trim(actor, high, limit)
        for counter, key in entries:
            self._forget_deletion(key, dot_of(actor, counter))
        return len(entries) == limit

    def _forget_deletion(self, key: bytes, dot: int) -> None:
        mine = self.siblings(key)
        if any(other == dot and value is None for other, value in dvv.pairs(mine)):
            self._set(key, mine, dvv.without(mine, dot))

    def fold(self, node: str, boot: int, by_peer: bool = False) -> None:
        """Fold an early boot out of the clock and the log. All nodes have seen its deletions, so these are removed.

        `by_peer` as in `VersionVector.fold`.
        """
        # Check all actors of the node: the disk may have had a value whose dot the clock had not seen yet.
        folded = self.clock.fold(node, boot, by_peer)
        folded += [actor for actor in self.log.actors if actor not in folded and self.clock.is_folded(actor)]
        for actor in folded:
            while self.collect(actor, COUNTER, 1000):
                pass
            self.log.forget(actor)

    def made(self, space: bytes) -> dict[int, int]:
        """Actor -> number of siblings that it wrote in a namespace."""
        return {holder >> 8: count for holder, count in self.held.items() if holder & 0xFF == space[0]}

    def _bucket(self, key: bytes) -> dict[bytes, Siblings]:
        """Returns the bucket of a key, for writing."""
        number = crc32(key) % BUCKETS
        bucket = self.buckets[number]
        if bucket is _EMPTY:
            bucket = self.buckets[number] = {}
        return bucket

    def _set(self, key: bytes, before: Siblings, after: Siblings) -> None:
        if after:
            self._bucket(key)[key] = after
        else:
            self.buckets[crc32(key) % BUCKETS].pop(key, None)
        self._count(key, before, after)
        self.changed(key, before, after)

    def _mixed(self, key: bytes, dot: int) -> int:
        """Returns 64 bits of a key and a dot that are the same on every node."""
        mixed = crc32(key) + (self._actors.checksums[dot >> SHIFT] << 32 ^ dot & COUNTER) * _ODD & _BITS
        mixed = (mixed ^ mixed >> 32) * _ODD & _BITS
        return mixed ^ mixed >> 29

    def _count(self, key: bytes, before: Siblings, after: Siblings) -> None:
        held, space = self.held, key[0]
        counts = space not in self._left_out
        live = size = 0
        # Index by position instead of `pairs`: most keys have one sibling or none, and this runs for every change.
        for position in range(0, len(after), 2):
            holder, value = after[position] >> SHIFT << 8 | space, after[position + 1]
            held[holder] = held.get(holder, 0) + 1
            if value is None:
                self.tombstones += 1
            else:
                live += 1
                size += len(value)
                if counts:
                    self.digest ^= self._mixed(key, after[position])
        was = 0
        for position in range(0, len(before), 2):
            holder, value = before[position] >> SHIFT << 8 | space, before[position + 1]
            held[holder] -= 1
            if not held[holder]:
                del held[holder]
            if value is None:
                self.tombstones -= 1
            else:
                was += 1
                size -= len(value)
                if counts:
                    self.digest ^= self._mixed(key, before[position])
        self.keys += (live > 0) - (was > 0)
        self.bytes += size + (bool(after) - bool(before)) * len(key)

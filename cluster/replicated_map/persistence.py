"""The durable half on the disk: the keys of the store that begin with `d`.

    d key          siblings as [[node, boot, counter, value or nil], ...], and the key's context beyond the clock
    d 00 actor     the seen counters of an actor: [spans, floor of the log]
    d 01 node      the boot up to which a node's actors are folded

A key and the clock that covers its dots are written in the same turn, so they are in the same batch: after a power loss
the clock never covers a dot that the node lacks.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ...storage.engine import Corrupted
from ...storage.store import Store
from . import intervals
from .actors import COUNTER, Actors, dot_of
from .dvv import Siblings, pairs
from .replica import Replica
from .version_vector import VersionVector

PREFIX = b"d"
STEP = 1000

_Take = Callable[[bytes, bytes], None]
_REMEDY = "Empty this node's metadata and let it join again: the other members have everything."


class _KeyContext(msgspec.Struct, array_like=True):
    """A context beyond the clock."""

    seen: list[tuple[str, int, list[int]]]
    folded: dict[str, int]


class _Record(msgspec.Struct, array_like=True):
    """A key's siblings."""

    siblings: list[tuple[str, int, int, bytes | None]]
    key_context: _KeyContext | None = None


class _Seen(msgspec.Struct, array_like=True):
    """One actor of the clock."""

    seen: list[int]
    floor: int


_encode = msgspec.msgpack.Encoder().encode
_record = msgspec.msgpack.Decoder(_Record)
_seen = msgspec.msgpack.Decoder(_Seen)
_actor = msgspec.msgpack.Decoder(tuple[str, int])
_boot = msgspec.msgpack.Decoder(int)


class Persistence:
    """Writes the changes of a replica to a store, and loads the replica from it."""

    def __init__(self, store: Store, replica: Replica, actors: Actors) -> None:
        self._store = store
        self._replica = replica
        self._actors = actors
        self._folded: dict[str, int] = {}
        self._written: dict[int, tuple[list[int], int]] = {}

    def save_key(self, key: bytes) -> None:
        """Write a key as it is now."""
        replica = self._replica
        siblings = replica.siblings(key)
        key_context = replica.key_context(key)
        if not siblings and key_context is None:
            self._store.delete(PREFIX + key)
            return
        rows = [(*self._actors.writer(dot), dot & COUNTER, value) for dot, value in pairs(siblings)]
        self._store.put(
            PREFIX + key, _encode(_Record(rows, None if key_context is None else self._key_context(key_context)))
        )

    def _key_context(self, context: VersionVector) -> _KeyContext:
        return _KeyContext([(*self._actors.names[actor], seen) for actor, seen in context.seen.items()], context.folded)

    def save_clock(self) -> None:
        """Write the changes of the clock and the floors since the last call."""
        clock, floor = self._replica.clock, self._replica.log.floor
        if clock.folded != self._folded:
            for node, boot in clock.folded.items():
                if self._folded.get(node) != boot:
                    self._store.put(PREFIX + b"\1" + node.encode(), _encode(boot))
            self._folded = dict(clock.folded)
            for actor in [actor for actor in self._written if actor not in clock.seen]:
                del self._written[actor]
                self._store.delete(PREFIX + b"\0" + _encode(self._actors.names[actor]))
        for actor, seen in clock.seen.items():
            self._save_actor(actor, seen, floor.get(actor, 0))

    def _save_actor(self, actor: int, seen: list[int], floor: int) -> None:
        before = self._written.get(actor)
        if before is None or before[0] != seen or before[1] != floor:
            self._written[actor] = (list(seen), floor)
            self._store.put(PREFIX + b"\0" + _encode(self._actors.names[actor]), _encode(_Seen(seen, floor)))

    def load(self) -> None:
        """Read everything back, once, at the start. Raises `Corrupted` naming the key that cannot be read."""
        self._each(PREFIX + b"\0", PREFIX + b"\1", self._load_actor)
        self._each(PREFIX + b"\1", PREFIX + b"\2", self._load_folded)
        self._each(PREFIX + b"\2", bytes((PREFIX[0] + 1,)), self._load_key)

    def _each(self, start: bytes, stop: bytes, take: _Take) -> None:
        while rows := self._store.scan(start, stop, STEP):
            for key, value in rows:
                try:
                    take(key, value)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                    raise Corrupted(f"metadata key {key!r}", f"its value cannot be read ({error})", _REMEDY) from error
            start = rows[-1][0] + b"\0"

    def _load_actor(self, key: bytes, value: bytes) -> None:
        row = _seen.decode(value)
        node, boot = _actor.decode(key[2:])
        if not intervals.valid(row.seen):
            raise msgspec.ValidationError("spans out of order")
        actor = self._actors.number(node, boot)
        self._replica.clock.seen[actor] = row.seen
        if row.floor:
            self._replica.log.floor[actor] = row.floor
        self._written[actor] = (list(row.seen), row.floor)

    def _load_folded(self, key: bytes, value: bytes) -> None:
        node = key[2:].decode()
        self._folded[node] = _boot.decode(value)
        self._replica.clock.restore_folded(node, self._folded[node])

    def _load_key(self, key: bytes, value: bytes) -> None:
        record = _record.decode(value)
        name = key[1:]
        entries = sorted(
            (dot_of(self._actors.number(node, boot), counter), position)
            for position, (node, boot, counter, _) in enumerate(record.siblings)
        )
        siblings: Siblings = tuple(part for dot, at in entries for part in (dot, record.siblings[at][3]))
        if siblings:
            self._replica.restore(name, siblings)
        if record.key_context is not None:
            context = VersionVector(self._actors)
            context.folded = record.key_context.folded
            context.seen = {self._actors.number(node, boot): seen for node, boot, seen in record.key_context.seen}
            if not self._replica.clock.dominates(context):
                self._replica.key_contexts.note([name], context)
            elif not siblings:
                self._store.delete(key)

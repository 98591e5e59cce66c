"""The durable state of a Raft peer in a store: hard state, snapshot and log, each batch written whole or not at all.

Keys, behind a prefix: `h` the hard state, `s` the snapshot, `e<index, 8 bytes>` the entries. The log in the store has
no gaps, begins behind the snapshot (or at index 1), and has no entry that `Ready.entries` has replaced. The store must
have `sync` durability: after a power loss, a peer that has lost its vote could vote twice in one term.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from ...storage.store import Store
from .interface import Ready
from .messages import Entry, HardState, MalformedMessage, Saved, Snapshot

_T = TypeVar("_T")

_encode = msgspec.msgpack.Encoder().encode
_hard_states = msgspec.msgpack.Decoder(HardState)
_snapshots = msgspec.msgpack.Decoder(Snapshot)
_entries = msgspec.msgpack.Decoder(Entry)


class RaftStable:
    """The durable state of one peer. No other code may write to keys that begin with `prefix`."""

    def __init__(self, store: Store, prefix: bytes = b"R") -> None:
        self._store = store
        self._hard = prefix + b"h"
        self._snapshot = prefix + b"s"
        self._entry = prefix + b"e"
        self._end = prefix + b"f"  # behind every entry
        keys = store.keys(self._entry, self._end)
        self._first, self._last = (self._index(keys[0]), self._index(keys[-1])) if keys else (1, 0)
        self._compacted = 0  # the index of the snapshot in the store

    def load(self) -> Saved:
        """Returns the saved state; an `empty` one if there is none. Raises `MalformedMessage` if the saved state is
        invalid, and `StorageError` if the disk does not answer.
        """
        hard = self._read(self._hard, _hard_states) or HardState()
        snapshot = self._read(self._snapshot, _snapshots)
        self._compacted = before = snapshot.index if snapshot else 0
        entries = []
        for key, value in self._store.scan(self._key(before + 1), self._end):
            entry = _decode(key, value, _entries)
            if entry.index != before + 1 or self._index(key) != entry.index:
                raise MalformedMessage(f"{key!r} holds entry {entry.index} behind entry {before}: the log has a gap")
            entries.append(entry)
            before = entry.index
        if hard.commit > before:
            raise MalformedMessage(f"entry {hard.commit} was committed, but the saved log ends at {before}")
        return Saved(hard, snapshot, entries)

    def begin(self, saved: Saved, then: Callable[[], None]) -> None:
        """Write the first state of a peer, such as `bootstrap`, into an empty store; call `then` once it is durable."""
        assert self.load() == Saved(), "there is a state already"
        self._store.put(self._hard, _encode(saved.hard))
        if saved.snapshot is not None:
            self._put_snapshot(saved.snapshot)
        self._append(saved.entries)
        self._store.when_committed(self._store.open_commit, then)

    def save(self, ready: Ready, then: Callable[[], None]) -> None:
        """Write the durable part of this batch. Call `then` once it is durable, or at once without `Ready.sync`."""
        store = self._store
        if ready.hard is not None:
            store.put(self._hard, _encode(ready.hard))
        if ready.snapshot is not None:
            # The snapshot replaces the whole log, also later entries: they may contradict the snapshot.
            self._drop(0, self._last)
            self._last = 0
            self._put_snapshot(ready.snapshot)
        elif ready.compacted is not None:
            self._put_snapshot(ready.compacted)
            self.compacted(ready.compacted.index)
        if ready.entries:
            self._drop(ready.entries[0].index, self._last)
            self._append(ready.entries)
        if ready.sync:
            store.when_committed(store.open_commit, then)
        else:
            then()

    def compacted(self, index: int) -> None:
        """Delete the entries up to `index`, as far as the snapshot in the store covers them."""
        self._drop(0, min(index, self._compacted))

    def _key(self, index: int) -> bytes:
        return self._entry + index.to_bytes(8, "big")

    def _index(self, key: bytes) -> int:
        return int.from_bytes(key[len(self._entry) :], "big")

    def _put_snapshot(self, snapshot: Snapshot) -> None:
        self._store.put(self._snapshot, _encode(snapshot))
        self._compacted = snapshot.index

    def _append(self, entries: list[Entry] | tuple[Entry, ...]) -> None:
        for entry in entries:
            self._store.put(self._key(entry.index), _encode(entry))
            if self._last < self._first:  # there is no entry
                self._first = entry.index
            self._last = entry.index

    def _drop(self, first: int, last: int) -> None:
        """Delete the stored entries with first <= index <= last, in the open batch. It reads nothing: a disk that
        returns nothing for a moment must not stop the peer."""
        for index in range(max(first, self._first), last + 1):
            self._store.delete(self._key(index))
        if first <= self._first:
            self._first = max(self._first, last + 1)

    def _read(self, key: bytes, decoder: msgspec.msgpack.Decoder[_T]) -> _T | None:
        value = self._store.get(key)
        return None if value is None else _decode(key, value, decoder)


def _decode(key: bytes, value: bytes, decoder: msgspec.msgpack.Decoder[_T]) -> _T:
    try:
        return decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMessage(f"the saved Raft state at {key!r} cannot be read: {error}") from error

"""The log in memory: a snapshot, the entries behind it, and how far they are durable, committed and applied.

    base ........ snapshot ........ applied ........ committed ........ last
     (a short tail before the snapshot is kept)          stable: durable up to here, anywhere behind the snapshot

Entries are numbered without gaps from `base + 1` on. The term of `base` is known, too; older entries are not.
"""

from __future__ import annotations

from collections.abc import Iterable

from .configuration import History, Quorums
from .messages import Entry, Saved, Snapshot


class Log:
    """The log of one peer. `last_index` is the index of its last entry. Index and term of an empty log are 0."""

    __slots__ = (
        "_base_term", "_entries", "applied", "base", "committed", "history", "last_index", "pending_compaction",
        "pending_snapshot", "snapshot", "stable",
    )  # fmt: skip

    def __init__(self, saved: Saved) -> None:
        snapshot = saved.snapshot
        self.snapshot = snapshot
        self.base = snapshot.index if snapshot else 0
        self._base_term = snapshot.term if snapshot else 0
        self.history = History(self.base, snapshot.configuration if snapshot else None)
        self._entries: list[Entry] = []
        self.last_index = self.base
        self.pending_snapshot: Snapshot | None = None  # received, and not yet saved and restored
        self.pending_compaction: Snapshot | None = None  # made here, and not yet saved
        self.applied = self.base
        self.committed = max(self.base, saved.hard.commit)
        self._extend(entry for entry in saved.entries if entry.index > self.base)
        self.stable = self.last_index
        assert self.committed <= self.last_index, (self.committed, self.last_index)

    # Reading

    @property
    def last_term(self) -> int:
        """The term of the last entry."""
        return self._entries[-1].term if self._entries else self._base_term

    @property
    def quorums(self) -> Quorums:
        """The sets of voters: a decision needs a majority of each set."""
        return self.history.quorums(self.committed)

    def term(self, index: int) -> int | None:
        """Returns the term of the entry at `index`; None if the entry is compacted or behind the end of the log."""
        offset = index - self.base
        if 0 < offset <= len(self._entries):
            return self._entries[offset - 1].term
        return self._base_term if offset == 0 else None

    def slice(self, first: int, last: int) -> tuple[Entry, ...]:
        """Returns the entries with first <= index <= last."""
        return tuple(self._entries[first - self.base - 1 : last - self.base])

    def portion(self, first: int, max_bytes: int) -> tuple[Entry, ...]:
        """Returns entries from `first` on with at most `max_bytes` of data, but at least one if there is one."""
        entries = self._entries
        start = stop = first - self.base - 1
        size = 0
        while stop < len(entries):
            size += len(entries[stop].data)
            if size > max_bytes and stop > start:
                break
            stop += 1
        return tuple(entries[start:stop])

    def is_behind(self, index: int, term: int) -> bool:
        """Whether a log that ends with this entry is at least as up to date as this one (5.4.1)."""
        return (term, index) >= (self.last_term, self.last_index)

    def last_of(self, index: int, term: int) -> int:
        """Returns the index of the last entry at or before `index` whose term is not above `term`: there two logs may
        still agree.

        Terms never fall along a log, so the leader skips whole terms instead of single entries (5.3, last paragraph).
        """
        index = min(index, self.last_index)
        while index > self.base and self._entries[index - self.base - 1].term > term:
            index -= 1
        return index

    # Growing

    def append(self, entry: Entry) -> None:
        """Add one entry at the end."""
        self._entries.append(entry)
        self.last_index = entry.index
        self.history.append(entry)

    def _extend(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            assert entry.index == self.last_index + 1, (entry.index, self.last_index)
            self.append(entry)

    def merge(self, entries: tuple[Entry, ...]) -> None:
        """Take entries that follow an entry of this log. Drop own entries only if they differ (figure 2).

        An old message may have fewer entries than the log: then the later entries of the log stay.
        """
        for position, entry in enumerate(entries):
            if self.term(entry.index) != entry.term:
                if entry.index <= self.last_index:
                    self._cut(entry.index)
                self._extend(entries[position:])
                return

    def _cut(self, index: int) -> None:
        assert index > self.committed, f"entry {index} is committed and would be overwritten"
        del self._entries[index - self.base - 1 :]
        self.last_index = index - 1
        self.history.cut(index)
        self.stable = min(self.stable, index - 1)

    def commit(self, index: int) -> bool:
        """Entries up to `index` are committed, as far as this log reaches. Returns whether that is new."""
        index = min(index, self.last_index)
        if index <= self.committed:
            return False
        self.committed = index
        return True

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the whole log with a received snapshot."""
        assert snapshot.index > self.committed, (snapshot.index, self.committed)
        self.snapshot = self.pending_snapshot = snapshot
        self.pending_compaction = None
        self._entries = []
        self.base, self._base_term = snapshot.index, snapshot.term
        self.history = History(snapshot.index, snapshot.configuration)
        self.committed = self.stable = self.last_index = snapshot.index

    def compact(self, index: int, data: bytes, tail: int) -> None:
        """Take the state machine's own snapshot after entry `index`, and drop older entries except `tail` of them."""
        assert index <= self.applied, f"snapshot at {index} of a machine at {self.applied}"
        if index <= (self.snapshot.index if self.snapshot else 0):
            return
        term = self.term(index)
        assert term is not None
        self.snapshot = self.pending_compaction = Snapshot(index, term, self.history.at(index), data)
        base = max(self.base, min(index - tail, self.stable))
        base_term = self.term(base)
        assert base_term is not None
        del self._entries[: base - self.base]
        self.base, self._base_term = base, base_term
        self.history.forget(index)

    # Batches

    def unstable(self) -> tuple[Entry, ...]:
        """Returns the entries that are not on disk yet."""
        return self.slice(self.stable + 1, self.last_index) if self.stable < self.last_index else ()

    def to_apply(self) -> tuple[Entry, ...]:
        """Returns the committed entries that were not applied yet; none while a received snapshot must be restored."""
        if self.pending_snapshot is not None or self.applied == self.committed:
            return ()
        return self.slice(self.applied + 1, self.committed)

    def written(self, last: Entry) -> None:
        """The owner has written all entries up to this one. Ignored if the entry was replaced meanwhile."""
        if self.term(last.index) == last.term:
            self.stable = max(self.stable, last.index)

    def restored(self, snapshot: Snapshot) -> None:
        """The owner has saved and restored this snapshot."""
        self.applied = max(self.applied, snapshot.index)
        if self.pending_snapshot is snapshot:
            self.pending_snapshot = None

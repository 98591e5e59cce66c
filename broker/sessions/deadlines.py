"""The index of deadlines on disk: when the will or the expiry of each session is due, in the order of time.

A session that is in memory has a timer, and keeps its row up to date. For all other sessions this module has one timer,
for the earliest row. It then makes the sessions whose rows are due, and their own timers do the rest. A session with
a connection has a row with the time 0: after a crash these rows name the sessions whose connections the crash ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from ...cluster.identity import SLOTS
from ...storage import keys
from ...storage.engine import StorageError
from ..environment import Environment
from ..queues.records import RecordError
from ..timers import Timer

STEP = 50
"""Most sessions that one turn makes because of their deadlines."""

UNREADABLE_MS = 60_000
"""If the disk fails to return deadlines or sessions that are due, the node reads them again after this time, in ms."""


class Awake(Protocol):
    """A session in memory, and the time of its row."""

    deadline: int | None


class Deadlines:
    """The deadlines of a node's sessions.

    `wake` returns the session of a client key, made from its record if it is not in memory, or None if there is none.
    It raises `StorageError` or `RecordError` if the disk fails to return it.
    """

    def __init__(self, env: Environment, wake: Callable[[bytes], Awake | None]) -> None:
        self._env = env
        self._wake = wake
        self._next = [0] * SLOTS
        self._elsewhere: set[int] = set()
        """The slots whose deadlines another node watches."""
        self._not_before: dict[int, int] = {}
        """Slot -> the cluster time until which its clients have time to come back."""
        self._timer: Timer | None = None

    def move(self, client: bytes, before: int | None, after: int | None) -> None:
        """Change the row of a session with the open batch; None stands for no row."""
        store = self._env.store
        if before is not None:
            store.delete(keys.deadline_key(client, before))
        if after is not None:
            store.put(keys.deadline_key(client, after), b"")

    def watch(self, client: bytes, deadline: int | None) -> None:
        """The session is no longer in memory: make it when its deadline is due."""
        slot = client[0]
        if deadline and slot not in self._elsewhere:
            following = self._next[slot]
            if not following or deadline < following:
                self._next[slot] = deadline
                self._set_timer()

    def load(self) -> Iterator[int]:
        """Find the earliest deadline of each slot; yields each slot that has deadlines."""
        start = b"e"
        while found := self._env.store.keys(start, b"f", 1):
            slot = found[0][1]
            if slot not in self._elsewhere:
                self._next[slot] = self._following(slot, 1)
            yield slot
            start = keys.after(keys.of_slot(b"e", slot))
        self._set_timer()

    def stop(self, slot: int) -> None:
        """The sessions of this slot are at another node, or moving: make none of them because of its deadline."""
        self._elsewhere.add(slot)
        self._next[slot] = 0

    def resume(self, slot: int) -> None:
        """The sessions of this slot are here. Raises `StorageError`."""
        self._elsewhere.discard(slot)
        self.defer(slot)
        self._next[slot] = self._following(slot, 1)
        self._set_timer()

    def defer(self, slot: int) -> None:
        """The clients of this slot could not come back until now, or cannot for a moment: give them time."""
        self._not_before[slot] = self._env.now + self._env.cluster.failover_grace_s() * 1000

    def pause_ms(self, slot: int) -> int:
        """How long in ms no session of this slot may expire yet, and no will become due; 0 if they may now (H-43).

        Ask again after it, because the time may grow meanwhile.
        """
        cluster = self._env.cluster
        left_ms = self._not_before.get(slot, 0) - self._env.now
        if left_ms > cluster.failover_grace_s() * 1000:
            left_ms = 0  # the clock was set back
        return max(cluster.expiry_pause_ms(), left_ms)

    def attached(self, limit: int) -> Iterator[list[bytes]]:
        """Yield the client keys of the sessions that had a connection when the process ended, in steps; none for a
        slot without any, and for one whose sessions are at another node."""
        start = b"e"
        while found := self._env.store.keys(start, b"f", 1):
            slot = found[0][1]
            if slot in self._elsewhere:
                yield []
            else:
                yield from self.attached_in(slot, limit)
            start = keys.after(keys.of_slot(b"e", slot))

    def attached_in(self, slot: int, limit: int) -> Iterator[list[bytes]]:
        """As `attached`, for the sessions of one slot: the process that ended may have been another node's."""
        start, stop = keys.of_slot(b"e", slot), keys.deadlines_from(slot, 1)
        while True:
            found = self._env.store.keys(start, stop, limit)
            yield [keys.parse_deadline_key(key)[0] for key in found]
            if len(found) < limit:
                return
            start = found[-1] + b"\x00"

    def _following(self, slot: int, from_ms: int) -> int:
        stop = keys.after(keys.of_slot(b"e", slot))
        found = self._env.store.keys(keys.deadlines_from(slot, from_ms), stop, 1)
        return keys.parse_deadline_key(found[0])[1] if found else 0

    def _set_timer(self) -> None:
        first = min([when for when in self._next if when], default=0)
        if self._timer is not None and self._timer.callback is not None and self._timer.when_ms == first:
            return
        self._env.timers.cancel(self._timer)
        self._timer = self._env.timers.at(first, self._due) if first else None

    def _due(self) -> None:
        now = self._env.now
        left = STEP
        for slot in range(SLOTS):
            if 0 < self._next[slot] <= now and left > 0:
                if pause_ms := self.pause_ms(slot):  # a session that may not end yet would only use memory
                    self._next[slot] = now + pause_ms
                    continue
                try:
                    left -= self._make(slot, left)
                except StorageError:
                    self._next[slot] = now + UNREADABLE_MS
        self._set_timer()

    def _make(self, slot: int, limit: int) -> int:
        """Make sessions of this slot that are due. Returns the number of their rows. Raises `StorageError`."""
        now = self._env.now
        start, stop = keys.deadlines_from(slot, 1), keys.deadlines_from(slot, now + 1)
        rows = self._env.store.keys(start, stop, limit)
        made = sum([self._look(row) for row in rows])
        if len(rows) == limit and made:
            self._next[slot] = now
            return limit
        following = self._following(slot, now + 1) if len(rows) < limit else 0
        again = now + UNREADABLE_MS if made < len(rows) else 0
        self._next[slot] = min([when for when in (following, again) if when], default=0)
        return len(rows)

    def _look(self, row: bytes) -> bool:
        """Make the session of this row. Returns False if the disk fails to return it: the row stays.

        A row that its session does not confirm is deleted.
        """
        client, deadline = keys.parse_deadline_key(row)
        try:
            session = self._wake(client)
        except (StorageError, RecordError):
            return False
        if session is None or session.deadline != deadline:
            self._env.store.delete(row)
        return True

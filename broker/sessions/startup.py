"""The start of a node with the sessions on its disk, in steps between which the loop serves clients.

    1  the subscriptions of all sessions go into the router's tables, from snapshots or row by row
    2  now messages can be routed: `ready`
    3  the sessions whose connections the last process lost begin their absence; wills may be published
    4  the sessions on disk are counted

Sessions themselves stay on disk until something needs them. A client may connect before step 1 is complete: its session
is made from its record, and its packets behind CONNECT wait for step 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...cluster.identity import SLOTS
from ...storage import keys
from ...storage.engine import StorageError
from ..environment import Environment
from ..queues.records import RecordError, decode_subscription
from ..routing.router import Router
from ..routing.subscriptions import DormantSession
from .deadlines import Deadlines
from .snapshots import Snapshots, decode_snapshot, restored

ATTACHED = 100
"""Sessions whose absence begins in one turn."""

COUNTED = 1000
"""Session records that one step counts."""

SEEK = 20
"""As many rows a step reads in the time of two look-ups on disk."""

ROWS = 500
"""Subscriptions that one step reads row by row."""


def _raise(error: Exception) -> None:
    raise error


class Startup:
    """The start of one node. `absent` begins the absence of a session by its client key; `in_memory` tells whether the
    session of a client key is in memory.

    `dormant` is the number of sessions that only the disk has, among those that were counted so far.
    """

    def __init__(
        self,
        env: Environment,
        router: Router,
        snapshots: Snapshots,
        deadlines: Deadlines,
        absent: Callable[[bytes], None],
        in_memory: Callable[[bytes], bool],
    ) -> None:
        self._env = env
        self._router = router
        self._snapshots = snapshots
        self._deadlines = deadlines
        self._absent = absent
        self._in_memory = in_memory
        self._counted_to = b""
        self._waiting: list[Callable[[], None]] = []
        self.dormant = 0
        self.ready = False
        self.later: Callable[[Callable[[], None]], object] = env.after_turn
        """Runs the next step in another turn of the loop."""
        self.loaded: Callable[[], None] = lambda: None
        """Called when everything is loaded."""
        self.failed: Callable[[Exception], None] = _raise
        """Called with the error of a read: the node does not know all subscriptions, so it must not serve."""

    # -- the sessions that only the disk has

    def woken(self, client: bytes) -> None:
        """A session that only the disk had is in memory now."""
        if client < self._counted_to:
            self.dormant -= 1

    def released(self, client: bytes) -> None:
        """A session is no longer in memory."""
        if client < self._counted_to:
            self.dormant += 1

    # -- steps

    def run(self) -> None:
        """Begin. Data of up to `Options.load_step` rows is loaded on return. Raises `StorageError` or `RecordError`."""
        self._advance(self._steps())

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call `callback` once all subscriptions are known; at once if they are."""
        if self.ready:
            callback()
        else:
            self._waiting.append(callback)

    def _advance(self, steps: Iterator[int]) -> None:
        left = self._env.options.load_step
        for done in steps:
            left -= done
            if left <= 0:
                self.later(lambda: self._go_on(steps))
                return

    def _go_on(self, steps: Iterator[int]) -> None:
        if self._env.store.state == "closed":
            return
        self._env.tick()
        try:
            self._advance(steps)
        except (StorageError, RecordError) as error:
            self.failed(error)

    def _steps(self) -> Iterator[int]:
        """Load everything; yields how many rows were read since the last time."""
        self._snapshots.load()
        yield from self._subscriptions()
        self.ready = True
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()
        try:
            yield from self._sessions()
        except StorageError as error:
            # the store has reported the damage; messages are routed, so the node serves
            self._env.log("error", f"deadlines of sessions are not watched until the next start: {error}")
        self.loaded()

    def _sessions(self) -> Iterator[int]:
        for clients in self._deadlines.attached(ATTACHED):
            for client in clients:
                self._absent(client)
            yield SEEK + 10 * len(clients)  # each makes a session, which takes as long as ten rows
        for _ in self._deadlines.load():
            yield SEEK
        yield from self._count()

    def _subscriptions(self) -> Iterator[int]:
        without = 0
        # one row at a time: it has the subscriptions of thousands of clients
        while found := self._env.store.scan(keys.of_slot(b"v", without) if without < SLOTS else b"w", b"w", 1):
            slot = found[0][0][1]
            if without < slot:
                yield from self._rows(without, slot)
            yield from self._snapshot(slot)
            without = slot + 1
        if without < SLOTS:
            yield from self._rows(without, SLOTS)

    def _rows(self, first: int, end: int) -> Iterator[int]:
        """Read the subscriptions of all slots from `first` to before `end`, row by row."""
        stop = b"c" if end == SLOTS else keys.of_slot(b"b", end)
        start = keys.of_slot(b"b", first)
        session = DormantSession()
        while found := self._env.store.scan(start, stop, ROWS):
            for key, value in found:
                client, text = keys.parse_subscription_key(key)
                if client != session:
                    session = DormantSession(client)
                    self._snapshots.uncovered(client[0])
                record = decode_subscription(key, value)
                self._router.table(session.mountpoint).restore(restored(session, text, record))
            yield len(found)
            start = found[-1][0] + b"\x00"

    def _snapshot(self, slot: int) -> Iterator[int]:
        """Read the subscriptions of a slot from its snapshot, and those of clients with a note from their rows."""
        changed = self._snapshots.changed_clients[slot]
        start, stop = keys.of_slot(b"v", slot), keys.after(keys.of_slot(b"v", slot))
        clients = 0
        try:
            while found := self._env.store.scan(start, stop, 1):
                ((key, value),) = found
                row = decode_snapshot(key, value)
                clients += len(row.clients)
                self._router.table(row.mountpoint).restore_row(row, changed)
                yield len(row.filters)
                start = key + b"\x00"
        except (StorageError, RecordError) as error:
            self._env.log("warning", f"{error}; the node reads the subscriptions of slot {slot} one by one")
            yield from self._rows(slot, slot + 1)
            return
        self._snapshots.covers(slot, clients)
        for client in sorted(changed):
            yield self._of_client(client)

    def _of_client(self, client: bytes) -> int:
        prefix = b"b" + client
        session = DormantSession(client)
        found = self._env.store.scan(prefix, keys.after(prefix))
        for key, value in found:
            record = decode_subscription(key, value)
            text = keys.parse_subscription_key(key)[1]
            self._router.table(session.mountpoint).restore(restored(session, text, record))
        return len(found) + 1

    def _count(self) -> Iterator[int]:
        start = b"s"
        while found := self._env.store.keys(start, b"t", COUNTED):
            self.dormant += sum([not self._in_memory(key[1:]) for key in found])
            start = found[-1] + b"\x00"
            self._counted_to = start[1:]
            yield len(found) // 4
        self._counted_to = b"\xff" * 2

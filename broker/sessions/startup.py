"""The start of a node with the sessions on its disk, in steps between which the loop serves clients.

    1  the subscriptions of all sessions go into the router's tables, from snapshots or row by row
    2  now messages can be routed: `ready`
    3  the clients without durable state whose connections the last process lost leave their wills, and the sessions
       with such connections begin their absence; wills may be published
    4  the sessions on disk are counted, but for those of slots that are at other nodes

Sessions themselves stay on disk until something needs them. A client may connect before step 1 is complete: its session
is made from its record, and its packets behind CONNECT wait for step 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from ...cluster.identity import SLOTS
from ...storage import keys
from ...storage.engine import StorageError
from ..environment import Environment
from ..queues.records import RecordError, decode_subscription
from ..routing.dormant import client_of
from ..routing.router import Router
from ..routing.subscriptions import PARTS, part_of
from .deadlines import Deadlines
from .snapshots import SnapshotRow, Snapshots, decode_part, decode_snapshot, packed

ATTACHED = 100
"""Sessions whose absence begins in one turn."""

COUNTED = 1000
"""Session records that one step counts."""

SHOWN = 500
"""Session records of a slot that has come here that one turn counts."""

ALL = b"\xff" * 2
"""Above all client keys that are used: a slot is one byte, and no mountpoint is that long."""

SEEK = 20
"""As many rows a step reads in the time of two look-ups on disk."""

ROWS = 500
"""Subscriptions that one step reads row by row."""


def _raise(error: Exception) -> None:
    raise error


class DormantCount:
    """Counts the sessions that only the disk has, in the slots of this node. `in_memory` tells whether the durable
    session of a client key is in memory. `total` is their number among those that were counted so far."""

    def __init__(self, env: Environment, in_memory: Callable[[bytes], bool]) -> None:
        self._env = env
        self._in_memory = in_memory
        self._of_slot = [0] * SLOTS
        self._counted_to = b""
        self._shown: dict[int, bytes] = {}
        """Slots that have come here -> the client key up to which their sessions are counted."""
        self._counting: dict[int, None] = {}
        """The slots whose sessions are not all counted: each later turn counts some sessions of one of them."""
        self._planned = False
        self._hidden: set[int] = set()
        self.total = 0

    def woken(self, client: bytes) -> None:
        """A session that only the disk had is in memory now."""
        if self._counts(client):
            self._add(client[0], -1)

    def released(self, client: bytes) -> None:
        """A session is no longer in memory."""
        if self._counts(client):
            self._add(client[0], 1)

    def hide(self, slot: int) -> None:
        """The sessions of this slot are at another node, or moving: count none of them."""
        self._hidden.add(slot)
        self._shown.pop(slot, None)
        self._counting.pop(slot, None)
        self._add(slot, -self._of_slot[slot])

    def show(self, slot: int) -> None:
        """The sessions of this slot are here: count them, the first ones at once. Raises `StorageError`."""
        self._hidden.discard(slot)
        self._shown[slot] = b""
        self._add(slot, -self._of_slot[slot])
        self._count(slot)

    def _count(self, slot: int) -> None:
        """Count some more sessions of a slot, and plan to go on if there are others."""
        start, stop = keys.slot_range(b"s", slot)
        found = self._env.store.keys(max(start, b"s" + self._shown[slot]), stop, SHOWN)
        self._add(slot, sum([not self._in_memory(key[1:]) for key in found]))
        if len(found) < SHOWN:
            self._shown[slot] = ALL
            return
        self._shown[slot] = found[-1][1:] + b"\x00"
        self._counting[slot] = None
        if not self._planned:
            self._planned = True
            self._env.background(self._go_on)

    def _go_on(self) -> None:
        self._planned = False
        if not self._counting or self._env.store.state == "closed":
            return
        slot = next(iter(self._counting))
        del self._counting[slot]
        try:
            self._count(slot)
        except StorageError as error:
            self._env.log("error", f"some sessions of slot {slot} are not counted: {error}")
        if self._counting and not self._planned:
            self._planned = True
            self._env.background(self._go_on)

    def _counts(self, client: bytes) -> bool:
        slot = client[0]
        if slot in self._shown:
            return client < self._shown[slot]
        return client < self._counted_to and slot not in self._hidden

    def _add(self, slot: int, sessions: int) -> None:
        self._of_slot[slot] += sessions
        self.total += sessions

    def load(self) -> Iterator[int]:
        """Count the sessions of all slots in steps; yields how many rows were read. Raises `StorageError`."""
        start = b"s"
        while found := self._env.store.keys(start, b"t", COUNTED):
            for key in found:
                slot = key[1]
                if slot not in self._hidden and slot not in self._shown and not self._in_memory(key[1:]):
                    self._add(slot, 1)
            last = found[-1][1]
            # a copy of another node's slot may have many rows
            start = keys.after(keys.of_slot(b"s", last)) if last in self._hidden else found[-1] + b"\x00"
            self._counted_to = found[-1][1:] + b"\x00"
            yield len(found) // 4
        self._counted_to = ALL


class Startup:
    """The start of one node. `absent` begins the absence of a session by its client key; `in_memory` tells whether the
    durable session of a client key is in memory.

    `dormant` counts the sessions that only the disk has. `swept` is True when the last process has left no record of a
    client without durable state any more.
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
        self._other_layout = 0
        self._waiting: list[Callable[[], None]] = []
        self.dormant = DormantCount(env, in_memory)
        self.ready = self.swept = self.complete = False
        self.later: Callable[[Callable[[], None]], object] = env.after_turn
        """Runs the next step in another turn of the loop."""
        self.loaded: Callable[[], None] = lambda: None
        """Called when everything is loaded."""
        self.failed: Callable[[Exception], None] = _raise
        """Called with the error of a read: the node does not know all subscriptions, so it must not serve."""

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
        for notes in self._snapshots.load():
            yield notes // 4
        yield from self._subscriptions()
        self.ready = True
        self._snapshots.begin()
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()
        try:
            yield from self._sessions()
        except StorageError as error:
            # the store has reported the damage; messages are routed, so the node serves
            self._env.log("error", f"deadlines of sessions are not watched until the next start: {error}")
        self.complete = True
        self.loaded()

    def _sessions(self) -> Iterator[int]:
        for clients in chain(self._lost(), self._deadlines.attached(ATTACHED)):
            for client in clients:
                self._absent(client)
            yield SEEK + 10 * len(clients)  # each makes a session, which takes as long as ten rows
        for _ in self._deadlines.load():
            yield SEEK
        yield from self.dormant.load()

    def _lost(self) -> Iterator[list[bytes]]:
        """Yield the clients without durable state that had a connection when the process ended, in steps."""
        start = b"S"
        while found := self._env.store.keys(start, b"T", ATTACHED):
            yield [key[1:] for key in found]
            start = found[-1] + b"\x00"
        self.swept = True

    def _subscriptions(self) -> Iterator[int]:
        rows: list[tuple[int, SnapshotRow]] = []
        without = 0
        while found := self._env.store.keys(keys.of_slot(b"v", without) if without < SLOTS else b"w", b"w", 1):
            slot = found[0][1]
            if without < slot:
                yield from self._rows(without, slot)
            yield from self._snapshot(slot, rows)
            without = slot + 1
        if without < SLOTS:
            yield from self._rows(without, SLOTS)
        if self._other_layout:
            text = "snapshots of subscriptions have another layout; the node makes new ones of their slots"
            self._env.log("notice", f"{self._other_layout} {text}")
        yield from self._parts(rows)

    def _snapshot(self, slot: int, rows: list[tuple[int, SnapshotRow]]) -> Iterator[int]:
        """Add the rows of the snapshot of a slot, or read its subscriptions one by one if they cannot be used."""
        start, stop = keys.slot_range(b"v", slot)
        own: list[tuple[int, SnapshotRow]] = []
        try:
            # one row at a time: it has the subscriptions of thousands of clients
            while found := self._env.store.scan(start, stop, 1):
                row = decode_snapshot(*found[0])
                if row is None:
                    self._other_layout += 1
                    break
                own.append((slot, row))
                yield row.clients
                start = found[0][0] + b"\x00"
            else:
                rows += own
                return
        except (StorageError, RecordError) as error:
            self._unreadable(slot, error)
        yield from self._rows(slot, slot + 1)

    def _unreadable(self, slot: int, error: Exception) -> None:
        self._env.log("warning", f"{error}; the node reads the subscriptions of slot {slot} one by one")

    def _rows(self, first: int, end: int) -> Iterator[int]:
        """Read the subscriptions of all slots from `first` to before `end`, row by row."""
        stop = b"c" if end == SLOTS else keys.of_slot(b"b", end)
        start = keys.of_slot(b"b", first)
        last = b""
        while found := self._env.store.scan(start, stop, ROWS):
            for key, value in found:
                client = self._load_row(key, value)
                if client != last:
                    last = client
                    self._snapshots.uncovered(client[0])
            yield len(found)
            start = found[-1][0] + b"\x00"

    def _load_row(self, key: bytes, value: bytes) -> bytes:
        """Add the subscription of a row to the table; returns the client key."""
        client, text = keys.parse_subscription_key(key)
        text, subscription = packed(client, text, decode_subscription(key, value))
        self._router.table(keys.mountpoint_of(client)).load(client[0], part_of(text), ((text, subscription),))
        return client

    def _parts(self, rows: list[tuple[int, SnapshotRow]]) -> Iterator[int]:
        """Fill the tables, one part after the other, from the snapshots. Then read the clients with a note."""
        clients: dict[int, int] = {}
        for slot, row in rows:
            clients[slot] = clients.get(slot, 0) + row.clients
        for number in range(PARTS):
            for slot, row in rows:
                if slot not in clients:
                    continue
                try:
                    part = decode_part(slot, row.parts[number])
                except RecordError as error:
                    self._unreadable(slot, error)
                    del clients[slot]
                    yield from self._rows(slot, slot + 1)
                    continue
                found: Iterable[tuple[str, bytes]] = zip(part.filters, part.subscriptions, strict=True)
                if changed := self._snapshots.changed_clients[slot]:
                    found = [each for each in found if client_of(each[1]) not in changed]
                self._router.table(row.mountpoint).load(slot, number, found)
                yield len(part.filters)
        for slot, count in clients.items():
            self._snapshots.covers(slot, count)
            for client in sorted(self._snapshots.changed_clients[slot]):
                yield self._of_client(client)

    def _of_client(self, client: bytes) -> int:
        prefix = b"b" + client
        found = self._env.store.scan(prefix, keys.after(prefix))
        for key, value in found:
            self._load_row(key, value)
        return len(found) + SEEK // 2

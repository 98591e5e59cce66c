"""Snapshots of subscriptions, one for each slot, so that a node with many sessions starts fast.

A start needs every subscription before it routes a message. One row for each subscription takes 9 s to read for a
million sessions with two each. A snapshot has the subscriptions of thousands of clients in one row, and takes 1.5 s.

A row has the subscriptions in the form of the router's tables (`routing/dormant.py`), and in their parts
(`routing/subscriptions.part_of`). So a start fills one part of a table after the other, from all rows. In this order it
takes half the time, because the processor's cache has the part.

The rows of the subscriptions stay the truth. A change of a client's subscriptions writes a note in the same batch: the
snapshot is wrong about this client. A new snapshot of a slot deletes the notes that it includes. Notes and snapshots
belong to this disk alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ...cluster.identity import SLOTS
from ...mqtt.topics import parse_shared
from ...storage import keys
from ...storage.engine import StorageError
from ..environment import Environment
from ..queues.records import RecordError, SubscriptionRecord, decode_subscription, encode
from ..routing.dormant import pack_head, subscriber_key
from ..routing.subscriptions import PARTS, Subscription, part_of

LAYOUT = 2
"""The first byte of a row. It changes with the form of the row, with that of a subscription as bytes, and with the
parts of a table. Rows with another number are not used: the start reads the rows of the subscriptions instead."""

CLIENTS = 2000
"""Clients in one row of a snapshot."""

ROWS = 500
"""Subscriptions that one turn reads to make a snapshot."""

NOTES = 1000
"""Notes that one step of the start reads."""

PAUSE_MS = 1000
"""Milliseconds between two snapshots. It bounds the work: a snapshot of 4,000 clients takes about 20 ms in all."""

SHARE = 16
"""A new snapshot is due when the notes are this part of the slot's clients, and at least `Options.snapshot_notes`."""


class SnapshotRow(msgspec.Struct, array_like=True):
    """The subscriptions of many clients of a mountpoint. `parts` has `PARTS` items, each an encoded `SnapshotPart`."""

    mountpoint: str
    clients: int
    parts: list[msgspec.Raw]


class SnapshotPart(msgspec.Struct, array_like=True, gc=False):
    """Filters of one part of a table, without `$share`, each with a subscription as bytes."""

    filters: list[str]
    subscriptions: list[bytes]


_row = msgspec.msgpack.Decoder(SnapshotRow)
_part = msgspec.msgpack.Decoder(SnapshotPart)


def decode_snapshot(key: bytes, value: bytes) -> SnapshotRow | None:
    """The row of a snapshot at `key`, None if it has another layout. Raises `RecordError`."""
    if value[:1] != bytes((LAYOUT,)):
        return None
    try:
        row = _row.decode(value[1:])
        if len(row.parts) != PARTS:
            raise msgspec.ValidationError(f"it has {len(row.parts)} parts")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"message database: the snapshot at key {key!r} cannot be read: {error}") from None
    return row


def decode_part(slot: int, raw: msgspec.Raw) -> SnapshotPart:
    """One part of a row in the snapshot of this slot. Raises `RecordError`."""
    try:
        part = _part.decode(raw)
        if len(part.filters) != len(part.subscriptions):
            raise msgspec.ValidationError("a filter has no subscription")
        return part
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"message database: the snapshot of slot {slot} cannot be read: {error}") from None


def packed(client: bytes, text: str, record: SubscriptionRecord) -> tuple[str, bytes]:
    """The filter without `$share`, and the subscription as bytes. `text` is the filter, `$share` included."""
    group, text = parse_shared(text)
    options = record.qos, record.no_local, record.retain_as_published, record.retain_handling
    return text, pack_head(options, record.identifier, group is not None) + subscriber_key(client, group)


def restored(session: Any, text: str, record: SubscriptionRecord) -> Subscription:
    """The subscription of a record. `text` is the filter, `$share` included."""
    group, text = parse_shared(text)
    return Subscription(
        session,
        text,
        group,
        record.qos,
        record.no_local,
        record.retain_as_published,
        record.retain_handling,
        record.identifier,
    )


class _Row:
    """A row that is being made. Clients come one after the other, each with all its subscriptions."""

    def __init__(self, mountpoint: str) -> None:
        self.mountpoint = mountpoint
        self.clients = 0
        self._parts = [SnapshotPart([], []) for _ in range(PARTS)]

    def add(self, client: bytes, text: str, record: SubscriptionRecord) -> None:
        text, subscription = packed(client, text, record)
        part = self._parts[part_of(text)]
        part.filters.append(text)
        part.subscriptions.append(subscription)

    def encoded(self) -> bytes:
        parts = [msgspec.Raw(encode(part)) for part in self._parts]
        return bytes((LAYOUT,)) + encode(SnapshotRow(self.mountpoint, self.clients, parts))


class Snapshots:
    """The snapshots of a node, and the clients that they are wrong about."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.changed_clients: list[set[bytes]] = [set() for _ in range(SLOTS)]
        """The clients with a note, by slot."""
        self._clients = [0] * SLOTS
        self._uncovered = [0] * SLOTS
        self._due: dict[int, None] = {}
        self._running = True  # until `begin`
        self._slot = -1
        """The slot whose snapshot is being made; -1 if none is."""
        self.later: Callable[[Callable[[], None]], object] = env.after_turn
        """Runs the next step in another turn of the loop."""

    def changed(self, client: bytes) -> None:
        """A subscription of this client was added or removed in the open batch: note it there."""
        noted = self.changed_clients[client[0]]
        if client not in noted:
            noted.add(client)
            self._env.store.put(keys.changed_key(client), b"")
            self._look(client[0])

    def begin(self) -> None:
        """Make snapshots from now on. Call this when the start has read all subscriptions: a snapshot deletes notes,
        and the start needs them."""
        self._end()

    def load(self) -> Iterator[int]:
        """Read the notes in steps; yields how many. The start needs all of them before it reads a snapshot."""
        start = b"f"
        while found := self._env.store.keys(start, b"g", NOTES):
            for key in found:
                self.changed_clients[key[1]].add(key[1:])
            yield len(found)
            start = found[-1] + b"\x00"

    def delete(self, slot: int) -> None:
        """Delete the snapshot of this slot and its notes with the open batch. Raises `StorageError`."""
        self.forget(slot)
        for kind in (b"v", b"f"):
            for key in self._env.store.keys(*keys.slot_range(kind, slot)):
                self._env.store.delete(key)

    def forget(self, slot: int) -> None:
        """The sessions of this slot have left this disk: make no snapshot of it."""
        self.changed_clients[slot].clear()
        self._clients[slot] = self._uncovered[slot] = 0
        self._due.pop(slot, None)
        if self._slot == slot:
            self._slot = -1

    def covers(self, slot: int, clients: int) -> None:
        """The start has read the snapshot of this slot, which has so many clients."""
        self._clients[slot] = clients
        self._look(slot)

    def uncovered(self, slot: int) -> None:
        """The start has read the rows of one more client of this slot, which has no readable snapshot."""
        self._uncovered[slot] += 1
        self._look(slot)

    def _look(self, slot: int) -> None:
        noted = len(self.changed_clients[slot]) + self._uncovered[slot]
        if noted >= self._env.options.snapshot_notes and noted * SHARE > self._clients[slot]:
            self._due[slot] = None
            self._start()

    def _start(self) -> None:
        if not self._running:
            self._running = True
            self._env.timers.at(self._env.now + PAUSE_MS, self._begin)

    def _begin(self) -> None:
        if not self._due:
            self._end()
            return
        slot = self._slot = next(iter(self._due))
        del self._due[slot]
        noted, self.changed_clients[slot] = self.changed_clients[slot], set()
        self._go_on(slot, noted, self._steps(slot, noted))

    def _go_on(self, slot: int, noted: set[bytes], steps: Iterator[None]) -> None:
        if self._slot != slot:
            self._end()
            return
        try:
            next(steps)
        except StopIteration:
            self._end()
        except (StorageError, RecordError):
            # the store reports the damage; the notes stay, and the next start reads the rows of these clients
            self.changed_clients[slot] |= noted
            self._end()
        else:
            self.later(lambda: self._go_on(slot, noted, steps))

    def _end(self) -> None:
        self._running = False
        self._slot = -1
        if self._due:
            self._start()

    def _steps(self, slot: int, noted: set[bytes]) -> Iterator[None]:
        """Read the rows of the slot in steps, then write the snapshot in one batch."""
        store = self._env.store
        start, stop = keys.slot_range(b"b", slot)
        rows = [_Row("")]
        clients, last = 0, b""
        while found := store.scan(start, stop, ROWS):
            for key, value in found:
                client, text = keys.parse_subscription_key(key)
                if client != last:
                    last = client
                    mountpoint = keys.mountpoint_of(client)
                    if rows[-1].clients == CLIENTS or rows[-1].mountpoint != mountpoint:
                        rows.append(_Row(mountpoint))
                    rows[-1].clients += 1
                    clients += 1
                rows[-1].add(client, text, decode_subscription(key, value))
            start = found[-1][0] + b"\x00"
            yield
        before = store.keys(*keys.slot_range(b"v", slot))
        for key in before[len(rows) :]:
            store.delete(key)
        for part, row in enumerate(rows):
            store.put(keys.snapshot_key(slot, part), row.encoded())
        for client in noted - self.changed_clients[slot]:
            store.delete(keys.changed_key(client))
        self._clients[slot] = clients
        self._uncovered[slot] = 0

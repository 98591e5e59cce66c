"""Snapshots of subscriptions, one for each slot, so that a node with many sessions starts fast.

A start needs every subscription before it routes a message. One row for each subscription takes 10 s to read for a
million sessions with two each; a snapshot has the subscriptions of thousands of clients in one row, and takes 2 s.

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
from ..routing.subscriptions import Subscription, SubscriptionRow, pack

CLIENTS = 2000
"""Clients in one row of a snapshot."""

ROWS = 500
"""Subscriptions that one turn reads to make a snapshot."""

PAUSE_MS = 1000
"""Milliseconds between two snapshots. It bounds the work: a snapshot of 4,000 clients takes about 20 ms in all."""

SHARE = 16
"""A new snapshot is due when the notes are this part of the slot's clients, and at least `Options.snapshot_notes`."""


_decoder = msgspec.msgpack.Decoder(SubscriptionRow)


def decode_snapshot(key: bytes, value: bytes) -> SubscriptionRow:
    """The row of a snapshot at `key`. Raises `RecordError`."""
    try:
        return _decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecordError(f"message database: the snapshot at key {key!r} cannot be read: {error}") from None


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


def _empty(mountpoint: str) -> SubscriptionRow:
    return SubscriptionRow(mountpoint, [], [], [], [], [])


class Snapshots:
    """The snapshots of a node, and the clients that they are wrong about."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.changed_clients: list[set[bytes]] = [set() for _ in range(SLOTS)]
        """The clients with a note, by slot."""
        self._clients = [0] * SLOTS
        self._uncovered = [0] * SLOTS
        self._due: dict[int, None] = {}
        self._running = False
        self.later: Callable[[Callable[[], None]], object] = env.after_turn
        """Runs the next step in another turn of the loop."""

    def changed(self, client: bytes) -> None:
        """A subscription of this client was added or removed in the open batch: note it there."""
        noted = self.changed_clients[client[0]]
        if client not in noted:
            noted.add(client)
            self._env.store.put(keys.changed_key(client), b"")
            self._look(client[0])

    def load(self) -> None:
        """Read the notes. `read` needs them."""
        for key in self._env.store.keys(b"f", b"g"):
            self.changed_clients[key[1]].add(key[1:])

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
        slot = next(iter(self._due))
        del self._due[slot]
        noted, self.changed_clients[slot] = self.changed_clients[slot], set()
        self._go_on(slot, noted, self._steps(slot, noted))

    def _go_on(self, slot: int, noted: set[bytes], steps: Iterator[None]) -> None:
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
        if self._due:
            self._start()

    def _steps(self, slot: int, noted: set[bytes]) -> Iterator[None]:
        """Read the rows of the slot in steps, then write the snapshot in one batch."""
        store = self._env.store
        start, stop = keys.of_slot(b"b", slot), keys.after(keys.of_slot(b"b", slot))
        rows = [_empty("")]
        clients = 0
        while found := store.scan(start, stop, ROWS):
            for key, value in found:
                client, text = keys.parse_subscription_key(key)
                record = decode_subscription(key, value)
                row = rows[-1]
                if not row.clients or row.clients[-1] != client:
                    mountpoint = keys.mountpoint_of(client)
                    if len(row.clients) == CLIENTS or row.mountpoint != mountpoint:
                        row = _empty(mountpoint)
                        rows.append(row)
                    row.clients.append(client)
                    row.counts.append(0)
                    clients += 1
                row.counts[-1] += 1
                row.filters.append(text)
                row.options.append(
                    pack(record.qos, record.no_local, record.retain_as_published, record.retain_handling)
                )
                row.identifiers.append(record.identifier)
            start = found[-1][0] + b"\x00"
            yield
        before = store.keys(keys.of_slot(b"v", slot), keys.after(keys.of_slot(b"v", slot)))
        for key in before[len(rows) :]:
            store.delete(key)
        for part, row in enumerate(rows):
            store.put(keys.snapshot_key(slot, part), encode(row))
        for client in noted - self.changed_clients[slot]:
            store.delete(keys.changed_key(client))
        self._clients[slot] = clients
        self._uncovered[slot] = 0

"""A disk that records the commit that made a message durable for a session."""

from __future__ import annotations

from collections.abc import Callable

from ..broker.queues.records import Origins, decode_entry, decode_message
from ..storage.engine import Batch, DiskFull, Done
from .engine.disk import ReplaceableDisk, SimDisk
from .history import History
from .workload.sender import key_of

_ORIGINS = Origins()


class RecordingDisk(ReplaceableDisk):
    """A disk that counts its finished batches in the history, together with all other disks.

    `name` returns the name of the present disk. `writes` counts the begun writes. `on_write` is called at the begin of
    each.
    """

    def __init__(self, history: History, disk: SimDisk, name: Callable[[], str] = str) -> None:
        super().__init__(disk)
        self.writes = 0
        self.on_write: Callable[[], None] | None = None
        self._history = history
        self._name = name
        self._bodies: dict[bytes, str] = {}
        self._bodiless: dict[bytes, list[str]] = {}
        self._places: dict[tuple[bytes, tuple[str, int, int]], bytes] = {}
        self._writing: Batch = {}

    def reopen(self) -> None:
        """Open the disk for the next process. An unfinished or failed write counts if the disk has all of it."""
        super().reopen()
        batch, self._writing = self._writing, {}
        if batch and all(self.get(key) == value for key, value in batch.items()):
            self._history.commits += 1
            self._note(batch)

    def crash(self, power: bool) -> None:
        """As `ReplaceableDisk.crash`. Entries that a loss of power has undone may come again, at other places."""
        super().crash(power)
        if power and self.durability == "os":
            self._places.clear()

    def replace(self, disk: SimDisk) -> None:
        """Replace the disk, and forget the queues of the old one."""
        super().replace(disk)
        self._places.clear()

    def write(self, batch: Batch, done: Done) -> None:
        """Write a batch (`Engine.write`), and record it when it is committed."""
        self.writes += 1
        if self.on_write is not None:
            self.on_write()
        self._writing = batch

        def written(error: Exception | None) -> None:
            if error is None or isinstance(error, DiskFull):
                self._writing = {}
            if error is None:
                self._history.commits += 1
                self._note(batch)
            done(error)

        self.disk.write(batch, written)

    def _note(self, batch: Batch) -> None:
        for key, value in batch.items():
            kind = key[:1]
            if kind == b"h":  # the slot leaves or comes: its queues are those of another node
                self._places = {place: seq for place, seq in self._places.items() if place[0][1] != key[1]}
            if value is None:
                continue
            if kind == b"p":
                self._note_body(key[1:], key_of(decode_message(key, value, "", _ORIGINS).payload))
            elif kind == b"q":
                self._note_entry(key, value)

    def _note_body(self, body: bytes, message: str) -> None:
        self._bodies[body] = message
        for client in self._bodiless.pop(body, ()):
            self._history.stored(client, message, self._name())

    def _note_entry(self, key: bytes, value: bytes) -> None:
        record, client = decode_entry(key, value), client_of(key)
        if record.message is not None:
            if record.message.topic.startswith("t/"):  # a SUBSCRIBE may add a retained message again
                self._place(key, (record.message.node, record.message.boot, record.message.counter))
            self._history.stored(client, key_of(record.message.payload), self._name())
        elif record.mid:
            body = key[1:2] + record.mid
            if body in self._bodies:
                self._history.stored(client, self._bodies[body], self._name())
            else:  # a copy of a slot gets its queues before their payloads
                self._bodiless.setdefault(body, []).append(client)

    def _place(self, key: bytes, mid: tuple[str, int, int]) -> None:
        """Record the place of a message in a queue, and report a second place (H-07)."""
        if self._history.power_lost:
            return  # with durability `os` the entry may be lost, and the message routed again
        queue, seq = key[:-8], key[-8:]
        if self._places.setdefault((queue, mid), seq) != seq:
            node, boot, counter = mid
            self._history.problem(f"twice: {node} {boot} {counter} is twice in the queue of {client_of(key)}")


def client_of(key: bytes) -> str:
    """Returns the client id of a key of the kinds s, b, q and i."""
    start = 2 + 2 + int.from_bytes(key[2:4], "big")
    length = int.from_bytes(key[start : start + 2], "big")
    return key[start + 2 : start + 2 + length].decode()

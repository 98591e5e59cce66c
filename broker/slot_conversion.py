"""Converts a message database of format 1, in which some keys of sessions have no slot (docs/storage.md#conversion).

    m mid     ->  p slot mid                  payload of a message in several queues, to each slot with such a queue
    c mid     ->  u slot mid                  number of these queues, counted again per slot
    l number  ->  z slot number               due will that waits for a lease
    g prefix  ->  j slot client incarnation   marker of queue entries that are being deleted
    s record  ->  e slot deadline client      next deadline of the session, in addition to its record

Queue entries keep their key and value. The old rows stay until every new row is durable and the data directory has the
new format. So before that the former version can still use the directory, and no crash loses a row.

The conversion consists of `STEPS` steps: one per slot, one for wills, one for markers, one for deadlines. A row counts
the completed steps and names the boot that ran them. The next boot continues. If another process used the directory in
between, the steps begin again: each step first deletes the rows that an earlier attempt wrote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec

from ..cluster.identity import SLOTS, slot_of
from ..storage import keys
from ..storage.engine import Batch, Engine
from .queues.records import RELEASED, RecordError, deadline_of, decode_entry, decode_session
from .sessions.wills import decode_pending

STEPS = SLOTS + 3

PROGRESS = b"nconversion"
"""The key of the progress. It stays after the conversion, with `STEPS` completed steps and no old rows left."""

BATCH_BYTES = 1 << 20
BATCH_ROWS = 2000
READ_ROWS = 64
"""Rows per read, few because each may have a large payload."""
COUNTED = 50_000
"""Payloads whose queues are counted in memory before the counts are written."""

_OLD_KINDS = (b"c", b"g", b"l", b"m")

Row = tuple[bytes, bytes | None]


class Progress(msgspec.Struct, array_like=True):
    """Boot that runs the conversion, number of completed steps, and whether the old rows are deleted."""

    boot: int
    steps: int
    cleaned: bool = False


class SlotConversion:
    """The conversion of one database. It decides what to write; the caller writes.

    `convert` and `clean` yield batches. The caller writes each batch before it asks for the next one. An empty batch
    only lets other work run. Both raise the engine's `StorageError`. `report` takes a sentence about a row that cannot
    be converted; the row stays as it is.
    """

    def __init__(self, engine: Engine, boot: int, report: Callable[[str], None]) -> None:
        self._engine = engine
        self._boot = boot
        self._report = report
        value = engine.get(PROGRESS)
        self._found = None if value is None else msgspec.msgpack.decode(value, type=Progress)
        self.steps = 0
        """Completed steps."""
        self.entries = 0
        """Queue entries read by this process."""
        self.payloads = 0
        """Payloads that this process copied into slots."""

    @property
    def old_rows_remain(self) -> bool:
        """True if the conversion is complete, but old rows are not deleted yet."""
        return self._found is not None and self._found.steps == STEPS and not self._found.cleaned

    def convert(self) -> Iterator[Batch]:
        """Write the new rows. Raises `RecordError` for a will that cannot be read, as every start does."""
        found = self._found
        if found is not None and found.cleaned:
            return  # the marker of the data directory is older than the database: it was put back from a backup
        if found is not None and found.boot == self._boot - 1:
            self.steps = found.steps
        yield self._progress(self.steps)
        while self.steps < STEPS:
            entries, wrote = self.entries, False
            for batch in self._batches(self._step(self.steps)):
                wrote = wrote or bool(batch)
                yield batch
            if wrote or self.entries > entries or self.steps + 1 == STEPS:
                yield self._progress(self.steps + 1)
            self.steps += 1

    def clean(self) -> Iterator[Batch]:
        """Delete the old rows. Call this only if the data directory has the new format."""
        assert self.old_rows_remain
        for kind in _OLD_KINDS:
            yield from self._batches(self._deletions(kind))
        yield self._progress(STEPS, cleaned=True)

    def _progress(self, steps: int, cleaned: bool = False) -> Batch:
        self._found = Progress(self._boot, steps, cleaned)
        return {PROGRESS: msgspec.msgpack.encode(self._found)}

    def _step(self, step: int) -> Iterator[Row | None]:
        if step < SLOTS:
            return self._payloads(step)
        return (self._wills, self._markers, self._deadlines)[step - SLOTS]()

    def _payloads(self, slot: int) -> Iterator[Row | None]:
        """Count the queue entries of a slot that share a payload, and copy these payloads. None: let other work run."""
        for stale in (keys.payload_key(slot, b""), keys.payload_count_key(slot, b"")):
            yield from self._deletions(stale)
        yield None  # the deletions are written
        counts: Counter[bytes] = Counter()
        flushed = False
        for key, value in self._rows(keys.queue_prefix_of_slot(slot)):
            self.entries += 1
            if self.entries % BATCH_ROWS == 0:
                yield None
            try:
                record = decode_entry(key, value)
            except RecordError as error:
                self._report(str(error))
                continue
            if record.mid and record.state != RELEASED:
                counts[record.mid] += 1
                if len(counts) >= COUNTED:
                    yield from self._counted(slot, counts, flushed)
                    yield None  # the counts are written: the next ones add to them
                    counts.clear()
                    flushed = True
        yield from self._counted(slot, counts, flushed)

    def _counted(self, slot: int, counts: Counter[bytes], flushed: bool) -> Iterator[Row]:
        for mid, number in counts.items():
            count_key = keys.payload_count_key(slot, mid)
            before = self._engine.get(count_key) if flushed else None
            if before is None:
                body = self._engine.get(b"m" + mid)
                if body is None:
                    self._report(
                        f"message database: {number} queue entries of slot {slot} refer to a body that is missing, "
                        f"key {b'm' + mid!r}"
                    )
                    continue
                self.payloads += 1
                yield keys.payload_key(slot, mid), body
            else:
                number += int.from_bytes(before, "big")
            yield count_key, number.to_bytes(4, "big")

    def _wills(self) -> Iterator[Row | None]:
        yield from self._deletions(b"z")
        yield None
        for key, value in self._rows(b"l"):
            pending = decode_pending(key, value)
            slot = slot_of(pending.mountpoint, pending.client_id)
            yield keys.will_key(slot, int.from_bytes(key[1:], "big")), value

    def _markers(self) -> Iterator[Row | None]:
        yield from self._deletions(b"j")
        yield None
        for key, _ in self._rows(b"g"):
            yield keys.cleanup_key(key[1:]), b""

    def _deadlines(self) -> Iterator[Row | None]:
        yield from self._deletions(b"e")
        yield None
        for number, (key, value) in enumerate(self._rows(b"s")):
            try:
                deadline = deadline_of(decode_session(key, value))
            except RecordError as error:
                self._report(str(error))
                continue
            if deadline is not None:
                yield keys.deadline_key(key[1:], deadline), b""
            elif number % BATCH_ROWS == 0:
                yield None

    def _rows(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        start, stop = prefix, keys.after(prefix)
        while found := self._engine.scan(start, stop, READ_ROWS):
            yield from found
            start = found[-1][0] + b"\x00"

    def _deletions(self, prefix: bytes) -> Iterator[Row]:
        start, stop = prefix, keys.after(prefix)
        while found := self._engine.keys(start, stop, BATCH_ROWS):
            yield from ((key, None) for key in found)
            start = found[-1] + b"\x00"

    def _batches(self, rows: Iterable[Row | None]) -> Iterator[Batch]:
        """Group rows into batches of bounded size. None ends a batch."""
        batch: Batch = {}
        size = 0
        for row in rows:
            if row is not None:
                key, value = row
                batch[key] = value
                size += len(key) + len(value or b"")
            if row is None or size >= BATCH_BYTES or len(batch) >= BATCH_ROWS:
                yield batch
                batch, size = {}, 0
        if batch:
            yield batch

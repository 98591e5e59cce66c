"""The queue of a persistent session: every QoS 1 and 2 entry is on disk, a window of them in memory.

Live entries are, in order of seq for `fifo`: in flight, `waiting` (in memory), then `[low, high)` on disk only. With
`lifo` the newest are sent first, so `waiting` holds the newest and `[low, high)` lies below it. A million messages for
an absent client take disk space, but only two integers of memory. All changes of the disk follow the order of the
store's batches. A crash between two batches may repeat an answer or a QoS 1 message, but loses none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from ...storage.engine import StorageError
from ...storage.keys import queue_prefix
from ..environment import Environment
from . import shared_payloads
from .expired_entries import ExpiredEntries
from .message import Message
from .queue import UNLIMITED, Consumer, Entry, Owner, Queue, QueueEvent
from .records import QUEUED, RELEASED, EntryRecord, RecordError, decode_entry, encode, to_message, to_record
from .sent_limit import SentLimit
from .session_cleanup import SessionCleanup

RESERVE = 4096
"""How many seqs one write of the session record reserves; a crash skips at most this many."""

_COUNT_STEP = 10_000

HAND_OVER_STEP = 1000
"""Entries that one step of `hand_over` reads."""

UNKNOWN = -1
"""The number of entries on disk, if they have not been counted."""

_RELEASED_RECORD = encode(EntryRecord(RELEASED, 0, 2, False, (), None, b"", ""))


class DurableQueue(Queue):
    """A queue whose entries survive the connection and the process."""

    durable = True

    __slots__ = (
        "cleanup", "expired", "handing_over", "high", "low", "on_disk", "prefix", "reserved", "sent_below",
        "sent_limit", "slot", "unreadable", "written",
    )  # fmt: skip

    def __init__(self, env: Environment, session: Owner, client: bytes, cleanup: SessionCleanup) -> None:
        super().__init__(env, session)
        self.cleanup = cleanup
        self.slot = client[0]
        self.prefix = queue_prefix(client, session.incarnation)
        self.low = self.high = 0
        self.reserved = 0
        self.sent_below = 0
        self.sent_limit = SentLimit(env, session)
        self.on_disk = 0
        self.written = 0
        self.expired: ExpiredEntries | None = None
        self.handing_over = None
        """The present `hand_over` or search for expired entries, if it is not over."""
        self.unreadable = False
        """True if the disk has failed to return an entry of this queue since the last `attach`."""

    def restore(self, first_seq: int, next_seq: int, sent_below: int, waiting: int = UNKNOWN) -> None:
        """Restore the state that a session record has. If it is not known how many entries wait on disk, `size` counts
        them when it is first read."""
        self.low = first_seq
        self.high = self.next_seq = self.reserved = next_seq
        self.sent_below = sent_below
        self.on_disk = waiting

    @property
    def dormant(self) -> bool:
        """True if memory has nothing of the queue that the disk lacks: the session may be released."""
        return self.on_disk_only and self.replay is None

    @property
    def on_disk_only(self) -> bool:
        """As `dormant`, but a replay may be incomplete. Its record says where it goes on, as after a restart."""
        return not (
            self.inflight
            or self.waiting
            or self.consumer is not None
            or self.handing_over is not None
            or self.unreadable
            or self.written > self.env.store.committed
        )

    # -- in

    def push(self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], group: str = "") -> bool:
        """As `Queue.push`: write QoS 1 and 2 messages with the open batch; send at once if order and window allow."""
        consumer = self.direct
        direct = consumer is not None and not self.waiting and self.low == self.high and consumer.is_writable
        if qos == 0:
            if direct:
                assert consumer is not None
                consumer.send_qos0(message, retain, identifiers)
                return False
            return self._wait_qos0(message, retain, identifiers)
        if direct and qos == 1:
            assert consumer is not None
            packet_id = self.next_seq % 65535 + 1
            if len(self.inflight) < self.window and packet_id not in self.inflight:
                entry = self._write(message, qos, retain, identifiers, group)
                self.inflight[packet_id] = entry
                self._note_sent(entry)
                if self.env.events.messages:
                    self._report(entry)
                consumer.send(entry)
                return True
        if not self._room():
            self.env.observer.dropped(self.session, message, "queue_full")
            return False
        if self.replay is not None:
            self.replay.live(message)
        entry = self._write(message, qos, retain, identifiers, group)
        if self.env.events.messages:
            self._report(entry)
        self._place(entry)
        if direct:
            self.pump()
        return True

    def _wait_qos0(self, message: Message, retain: bool, identifiers: tuple[int, ...]) -> bool:
        if self.consumer is None or self.low != self.high:
            # no client is connected, or the message would follow entries on disk, where QoS 0 is never written
            self.env.observer.unhandled(self.session, message)
        elif not self._room():
            self.env.observer.dropped(self.session, message, "queue_full")
        else:
            if self.replay is not None:
                self.replay.live(message)
            entry = Entry(0, message, 0, retain, identifiers, queued_at=self.env.now)
            if self.env.events.messages:
                self._report(entry)
            self.waiting.append(entry)
        return False

    def _report(self, entry: Entry) -> None:
        self.env.observer.message_queued(self.session, entry, self.slot)

    def feed(self, message: Message, qos: int, identifiers: tuple[int, ...]) -> bool:
        """As `Queue.feed`: False for QoS 0 if no client is connected, or if entries on disk would precede it."""
        if qos:
            self._place(self._write(message, qos, True, identifiers, ""))
        elif self.consumer is None or self.low != self.high:
            return False
        else:
            self.waiting.append(Entry(0, message, 0, True, identifiers, queued_at=self.env.now))
        return True

    @property
    def backlog(self) -> bool:
        """As `Queue.backlog`."""
        return self.low != self.high

    def _write(self, message: Message, qos: int, retain: bool, identifiers: tuple[int, ...], group: str) -> Entry:
        seq = self.next_seq
        if self.expired is not None:
            self.expired.added(message.expires_at)
        if seq >= self.reserved:
            self.reserved = seq + RESERVE
            self.session.save()
        self.next_seq = seq + 1
        store = self.env.store
        epoch, now = self.env.numbers.boot, self.env.now
        again = message.again and qos == 1  # an entry of QoS 2 leaves when the next primary has it, too
        record: EntryRecord | None = None
        if self.slot in message.shared_slots:
            with suppress(StorageError):  # the store reports the error; then the entry itself has the message
                mid = shared_payloads.hold(store, self.slot, message)
                record = EntryRecord(QUEUED, epoch, qos, retain, identifiers, None, mid, group, now, again)
        shared = record is not None
        if record is None:
            record = EntryRecord(QUEUED, epoch, qos, retain, identifiers, to_record(message), b"", group, now, again)
        store.put(self.prefix + seq.to_bytes(8, "big"), encode(record))
        self.written = store.open_commit
        return Entry(seq, message, qos, retain, identifiers, group, QUEUED, self.written, again, 0, shared, False, now)

    def _place(self, entry: Entry) -> None:
        """Keep a new entry in memory as well, or on disk only."""
        if self.consumer is None:
            self.env.observer.kept_offline(self.session, entry)
            self._extend(entry)
        elif self.lifo:
            self.waiting.append(entry)
            if len(self.waiting) > self.env.options.memory_window:
                self._spill_oldest()
        elif self.low == self.high and len(self.waiting) < self.env.options.memory_window:
            self.waiting.append(entry)
        else:
            self._extend(entry)

    def _extend(self, entry: Entry) -> None:
        """Extend `[low, high)` by an entry that is on disk only."""
        if self.low == self.high:
            self.low = entry.seq
            self.on_disk = 0
        self.high = entry.seq + 1
        if self.on_disk != UNKNOWN:
            self.on_disk += 1

    def _spill_oldest(self) -> None:
        entry = self.waiting.popleft()
        if entry.qos == 0:
            assert entry.message is not None
            self.env.observer.dropped(self.session, entry.message, "queue_full")
            return
        self._extend(entry)

    def _room(self) -> bool:
        if not self.full:
            return True
        self.expired = self.expired or ExpiredEntries()
        return self.expired.make_room(self) or (self.lifo and self._drop_oldest())

    def drop_expired(self, start: int, stop: int, limit: int) -> tuple[int, int]:
        """As `SearchedQueue.drop_expired`."""
        found, next_ms = self._scan(start, stop, limit, False) or [], 0
        for entry in self._decode_all(found) or []:
            message = entry.message
            if message is None or not message.expires_at or entry.dup:
                continue  # what was sent before is completed
            if self._expired(entry):
                self.env.observer.expired(self.session, message)
                self._forget(entry)
                self.on_disk -= self.on_disk != UNKNOWN
            else:
                next_ms = min(next_ms or message.expires_at, message.expires_at)
        return (stop if len(found) < limit else int.from_bytes(found[-1][0][-8:], "big") + 1), next_ms

    def _drop_oldest(self) -> bool:
        if self.low != self.high:
            for limit in (1, self.env.options.memory_window):
                for entry in self._read(self.low, self.high, limit, False) or []:
                    if self._may_go(entry):
                        self._drop_from_disk(entry)
                        return True
        for entry in self.waiting:
            if self._may_go(entry):
                self.waiting.remove(entry)
                self._drop(entry, "queue_full")
                return True
        return False

    def _may_go(self, entry: Entry) -> bool:
        """True if the entry may be dropped, which excludes entries in flight.

        Of entries that were sent before, fifo drops none, and lifo drops only QoS 1: with QoS 2 the client waits for
        PUBREL.
        """
        if entry.state == RELEASED or self._in_flight(entry.seq):
            return False
        return not (entry.dup and (entry.qos == 2 or not self.lifo))

    def _drop_from_disk(self, entry: Entry) -> None:
        self._drop(entry, "queue_full")
        if self.on_disk != UNKNOWN:
            self.on_disk -= 1
        if entry.seq == self.low:
            self.low += 1

    def _drop(self, entry: Entry, reason: str) -> None:
        if entry.message is not None:
            self.env.observer.dropped(self.session, entry.message, reason)
        self._forget(entry)

    # -- out

    def _change(self, event: QueueEvent) -> None:
        super()._change(event)
        self.handing_over = None

    def attach(self, consumer: Consumer, window: int) -> None:
        """As `Queue.attach`: drop entries above `max_online_messages`, unless `override_max_online_messages` is set."""
        super().attach(consumer, window)
        self.unreadable = False
        self.sent_limit.begin(max(self.sent_below, self.first_seq))
        if not self.env.options.override_max_online_messages:
            self._trim(self.limit(True))
        if not self.waiting and self.low != self.high:
            self._refill()  # as `pump` would do: if the disk fails to return the queue, the client is refused

    def detach(self) -> None:
        """The client disconnected: keep all live entries on disk only, and drop QoS 0 messages."""
        super().detach()
        if self.lifo:
            self._write_sent()
        live = [e.seq for e in self.inflight.values()]
        for entry in self.waiting:
            if entry.qos:
                live.append(entry.seq)
            else:
                assert entry.message is not None
                self.env.observer.unhandled(self.session, entry.message)
        if self.low == self.high:
            self.on_disk = 0
        if self.on_disk != UNKNOWN:
            self.on_disk += len(live)
        if self.low != self.high:
            live.append(self.low)
        self.inflight.clear()
        self.waiting.clear()
        self.low = min(live, default=self.next_seq)
        self.high = self.next_seq
        self._trim(self.limit(False))

    def _write_sent(self) -> None:
        """Write in the records of the entries in flight that they were sent."""
        for entry in self.inflight.values():
            message = entry.message
            if message is None or entry.seq < self.sent_below:
                continue
            body, mid = (None, shared_payloads.key_of(message)) if entry.shared else (to_record(message), b"")
            details = entry.qos, entry.retain, entry.identifiers, body, mid, entry.group, entry.queued_at, True
            record = EntryRecord(QUEUED, self.env.numbers.boot, *details)
            self.env.store.put(self.prefix + entry.seq.to_bytes(8, "big"), encode(record))

    def _trim(self, limit: int) -> None:
        """Drop entries on disk above a limit, if `_may_go` allows: the newest first with fifo, the oldest with lifo."""
        if limit == UNLIMITED:
            return
        excess = self.size - limit
        low, high = self.low, self.high
        while excess > 0 and low < high:
            step = min(excess, self.env.options.memory_window)
            found = self._scan(low, high, step, not self.lifo)
            if not found:
                return
            entries = self._decode_all(found)
            if entries is None:
                return
            last = int.from_bytes(found[-1][0][-8:], "big")
            low, high = (last + 1, high) if self.lifo else (low, last)
            for entry in entries:
                if self._may_go(entry):
                    self._drop_from_disk(entry)
                    excess -= 1
                elif not self.lifo and entry.seq < self.sent_below:
                    return  # all older ones were sent as well

    def _may_leave(self, entry: Entry) -> bool:
        if not super()._may_leave(entry):
            return False
        if self.lifo and (older := self._take_open(entry)) is not None:
            assert self.consumer is not None
            self._leave(older, self.consumer)
            return super()._may_leave(entry)
        if self.sent_limit.allows(entry.seq):
            return True
        if entry.qos == 1 and (not self.env.store.accepting or self.env.cluster.right() == "policy"):
            return True  # also a node with a full disk, or without a lease, delivers what it has stored
        self._await(self.sent_limit.commit)
        return False

    def _take_open(self, entry: Entry) -> Entry | None:
        """With `lifo`: take from the queue an older entry with the same packet id whose handshake the client may have
        begun. It must be complete first, or the client takes the newer message for the one that it has (H-11)."""
        oldest = self.low if self.low != self.high else self.waiting[0].seq
        for seq in range(entry.seq - 65535, oldest - 1, -65535):
            for older in self.waiting:
                if older.seq == seq and older.qos and _is_open(older):
                    self.waiting.remove(older)
                    return older
            for older in self._read(seq, seq + 1, 1, False) or [] if self.low <= seq < self.high else []:
                if _is_open(older):
                    if self.on_disk != UNKNOWN:
                        self.on_disk -= 1
                    return older
        return None

    def _leave(self, entry: Entry, consumer: Consumer) -> None:
        if entry.qos:
            self._note_sent(entry)
        super()._leave(entry, consumer)

    def _note_sent(self, entry: Entry) -> None:
        """With `lifo` older ones may not have been sent: `detach` writes which ones were."""
        if not self.lifo and entry.seq >= self.sent_below:
            self.sent_below = entry.seq + 1
        self.sent_limit.include(entry.seq)

    def _refill(self) -> bool:
        while self.low != self.high:
            found = self._load(self.env.options.memory_window, self.lifo)
            if found is None:
                return False
            if self.lifo:
                self.waiting.extendleft(found)
            else:
                self.waiting.extend(found)
            if found:
                return True
        return False

    def _scan(self, low: int, high: int, limit: int, reverse: bool) -> list[tuple[bytes, bytes]] | None:
        """Return rows of the queue; None if the disk fails to return them."""
        start = self.prefix + low.to_bytes(8, "big")
        stop = self.prefix + high.to_bytes(8, "big")
        try:
            return self.env.store.scan(start, stop, limit, reverse)
        except StorageError as error:
            self._failed(error)
            return None

    def _read(self, low: int, high: int, limit: int, reverse: bool) -> list[Entry] | None:
        found = self._scan(low, high, limit, reverse)
        return None if found is None else self._decode_all(found)

    def _failed(self, error: StorageError) -> None:
        """Report the first failed read. The queue stays on disk, because an operator may repair the database."""
        if not self.unreadable:
            self.unreadable = True
            self.session.queue_unreadable(error)

    def _load(self, limit: int, reverse: bool) -> list[Entry] | None:
        """Take entries from `[low, high)` into memory and return them; None if the disk fails to return them."""
        found = self._scan(self.low, self.high, limit, reverse)
        if found is None:
            return None
        # with lifo the range may include entries that were sent before the entries around them were spilled
        here = [row for row in found if not self._in_flight(int.from_bytes(row[0][-8:], "big"))]
        entries = self._decode_all(here)
        if entries is None:
            return None
        if self.on_disk != UNKNOWN:
            self.on_disk -= len(here)
        if len(found) < limit:
            self.low = self.high
        elif reverse:
            self.high = int.from_bytes(found[-1][0][-8:], "big")
        else:
            self.low = int.from_bytes(found[-1][0][-8:], "big") + 1
        return entries

    def _in_flight(self, seq: int) -> bool:
        entry = self.inflight.get(seq % 65535 + 1)
        return entry is not None and entry.seq == seq

    def _decode_all(self, found: list[tuple[bytes, bytes]]) -> list[Entry] | None:
        """Return the entries of these rows; None if the disk fails to return a shared body."""
        entries = []
        for key, value in found:
            try:
                entries.append(self._decode(key, value))
            except RecordError as error:
                # report the lost entry, and continue with the rest
                self.env.log("error", str(error))
                self.env.store.delete(key)
            except StorageError as error:
                self._failed(error)
                return None
        return entries

    def _decode(self, key: bytes, value: bytes) -> Entry:
        seq = int.from_bytes(key[-8:], "big")
        record = decode_entry(key, value)
        message: Message | None = None
        mountpoint = self.session.mountpoint
        if record.message is not None:
            message = to_message(record.message, mountpoint, self.env.origins)
        elif record.state != RELEASED:
            message = shared_payloads.load(self.env.store, self.slot, record.mid, mountpoint, self.env.origins)
        # an earlier connection may have sent the entry: mark it DUP [MQTT-3.3.1-1]
        dup = record.again or seq < self.sent_below
        # the commit of this entry is not known; the entry is safe once the entry that was written last is safe
        shared = bool(record.mid)
        return Entry(
            seq,
            message,
            record.qos,
            record.retain,
            record.identifiers,
            record.group,
            record.state,
            self.written,
            dup,
            0,
            shared,
            queued_at=record.queued_at,
        )

    # -- answers of the subscriber

    def _release(self, entry: Entry) -> None:
        if entry.message is not None and entry.shared:
            shared_payloads.let_go(self.env.store, self.slot, shared_payloads.key_of(entry.message))
        super()._release(entry)
        store = self.env.store
        store.put(self.prefix + entry.seq.to_bytes(8, "big"), _RELEASED_RECORD)
        entry.batch = store.open_commit

    def _pubrel_when_safe(self, entry: Entry) -> None:
        """Send PUBREL only after the record that PUBREC has arrived is safe (H-11)."""
        store = self.env.store
        consumer = self.consumer
        if entry.batch <= store.committed:
            super()._pubrel_when_safe(entry)
            return

        def safe() -> None:
            if self.consumer is consumer and consumer is not None:
                consumer.send_pubrel(entry)

        store.when_committed(entry.batch, safe)

    def _forget(self, entry: Entry) -> None:
        if not entry.qos:
            return
        store = self.env.store
        store.write_later(self.prefix + entry.seq.to_bytes(8, "big"), None)
        if entry.message is not None and entry.shared:
            shared_payloads.let_go(store, self.slot, shared_payloads.key_of(entry.message))

    # -- the end

    @property
    def size(self) -> int:
        """Number of messages that wait in memory or on disk, without those in flight."""
        if self.low == self.high:
            self.on_disk = 0
        elif self.on_disk == UNKNOWN:
            left = sum(self.low <= each.seq < self.high for each in self.inflight.values())
            self.on_disk = self._count() - left
        return len(self.waiting) + self.on_disk

    @property
    def counted(self) -> int:
        """Number of messages on disk; `UNKNOWN` if they have not been counted. Never reads the disk."""
        return 0 if self.low == self.high else self.on_disk

    @property
    def first_seq(self) -> int:
        """No live entry has a lower seq than this."""
        live = [e.seq for e in self.inflight.values()]
        live.append(next((e.seq for e in self.waiting if e.qos), self.next_seq))  # they wait in the order of seq
        if self.low != self.high:
            live.append(self.low)
        return min(live, default=self.next_seq)

    def _count(self) -> int:
        start = self.prefix + self.low.to_bytes(8, "big")
        stop = self.prefix + self.high.to_bytes(8, "big")
        total = 0
        while True:
            try:
                keys = self.env.store.keys(start, stop, _COUNT_STEP)
            except StorageError as error:
                self._failed(error)
                return total  # the limit applies to the entries that could be counted
            total += len(keys)
            if len(keys) < _COUNT_STEP:
                return total
            start = keys[-1] + b"\x00"

    def hand_over(self, give: Callable[[Entry], bool]) -> Iterator[bool]:
        """As `Queue.hand_over`, for the messages on disk; it takes `HAND_OVER_STEP` of them in a step.

        It is over when the queue changes its state, or another one begins."""
        self.handing_over = this = object()
        return self._hand_over(give, this)

    def _hand_over(self, give: Callable[[Entry], bool], this: object) -> Iterator[bool]:
        start = self.low
        while self.handing_over is this:
            found = self._scan(start, self.high, HAND_OVER_STEP, False) or []
            taken = False
            for entry in self._decode_all(found) or []:
                if entry.group and entry.state == QUEUED and not self._expired(entry) and give(entry):
                    self._forget(entry)
                    taken = True
                    if self.on_disk != UNKNOWN:
                        self.on_disk -= 1
            if len(found) < HAND_OVER_STEP:
                self.handing_over = None
            else:
                start = int.from_bytes(found[-1][0][-8:], "big") + 1
                yield taken

    def live_entries(self) -> list[Entry]:
        """Every entry on disk, oldest first. Call this only while no client is connected."""
        assert self.consumer is None
        return self._read(self.low, self.high, 0, False) or []

    def discard(self) -> None:
        """The session has ended: let `SessionCleanup` delete its entries and release their shared bodies."""
        super().discard()
        self.cleanup.add(self.prefix)


def _is_open(entry: Entry) -> bool:
    """True if the client may have begun the handshake of QoS 2 with this entry."""
    return entry.state == RELEASED or (entry.qos == 2 and entry.dup)

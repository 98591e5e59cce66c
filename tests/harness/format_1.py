"""Rows of a message database of format 1, written byte by byte as the former version wrote them."""

from __future__ import annotations

from zlib import crc32

from strogoff.broker.queues.records import (
    QUEUED,
    RELEASED,
    EntryRecord,
    InboundRecord,
    MessageRecord,
    SessionRecord,
    SubscriptionRecord,
    WillRecord,
    encode,
)

INCARNATION = 5 << 40 | 77
"""As the former version numbered its sessions: boot and counter."""


def sized(text: str) -> bytes:
    raw = text.encode()
    return len(raw).to_bytes(2, "big") + raw


def middle(client_id: str) -> bytes:
    """Slot and client, the second part of the keys of a client id in the mountpoint ""."""
    slot = crc32(f"\0{client_id}".encode()) % 256
    return bytes([slot]) + b"\0\0" + sized(client_id) + b""


def mid_of(number: int) -> bytes:
    return sized("n1") + (5).to_bytes(4, "big") + number.to_bytes(8, "big")


def message(number: int, size: int = 300) -> MessageRecord:
    return MessageRecord("t", b"%d|" % number + bytes(size), 1, False, None, 0, "p", "n1", 5, number)


class Format1:
    """The rows of a database. `shared` numbers messages that several queues share."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self._counts: dict[bytes, int] = {}

    def session(self, client_id: str, will: WillRecord | None = None, incarnation: int = INCARNATION) -> None:
        """A persistent session without a connection, with a subscription to `t`."""
        record = SessionRecord(
            "", client_id, incarnation, True, 4, None, 0xFFFFFFFF, False, 0, will, 0, 0, 4096, 0, {}, False
        )
        self.rows[b"s" + middle(client_id)] = encode(record)
        key = b"b" + middle(client_id) + incarnation.to_bytes(8, "big") + b"t"
        self.rows[key] = encode(SubscriptionRecord(2, False, False, 0, 0))
        key = b"i" + middle(client_id) + incarnation.to_bytes(8, "big") + (9).to_bytes(2, "big")
        self.rows[key] = encode(InboundRecord(5, 12, True))

    def entry(self, client_id: str, seq: int, number: int, shared: bool, incarnation: int = INCARNATION) -> bytes:
        """A queue entry. Returns its key."""
        key = b"q" + middle(client_id) + incarnation.to_bytes(8, "big") + seq.to_bytes(8, "big")
        if shared:
            mid = mid_of(number)
            self._counts[mid] = self._counts.get(mid, 0) + 1
            self.rows[b"c" + mid] = self._counts[mid].to_bytes(4, "big")
            self.rows[b"m" + mid] = encode(message(number))
            record = EntryRecord(QUEUED, 5, 1, False, (), None, mid, "")
        else:
            record = EntryRecord(QUEUED, 5, 1, False, (), message(number), b"", "")
        self.rows[key] = encode(record)
        return key

    def released(self, client_id: str, seq: int) -> None:
        """A QoS 2 entry that waits for PUBCOMP."""
        key = b"q" + middle(client_id) + INCARNATION.to_bytes(8, "big") + seq.to_bytes(8, "big")
        self.rows[key] = encode(EntryRecord(RELEASED, 0, 2, False, (), None, b"", ""))

    def waiting_will(self, number: int, client_id: str) -> bytes:
        """A will that waits for a lease. Returns its key."""
        key = b"l" + number.to_bytes(8, "big")
        will = WillRecord("will", client_id.encode(), 1, False, None, -1, 0)
        self.rows[key] = encode(("", client_id, will))
        return key

    def being_deleted(self, client_id: str, incarnation: int, entries: int) -> None:
        """An ended session whose queue entries are being deleted; they share the messages from 1 on."""
        for seq in range(entries):
            self.entry(client_id, seq, seq + 1, True, incarnation)
        self.rows[b"g" + b"q" + middle(client_id) + incarnation.to_bytes(8, "big")] = b""


def example() -> Format1:
    """Sessions in several slots and two in one (`s`, `s226`), with own and shared messages, wills and a deletion."""
    old = Format1()
    for client_id in ("s", "s226", "r", "x", "empty"):
        old.session(client_id)
    for seq, number in enumerate((1, 2, 3, 4)):
        for client_id in ("s", "s226", "r", "x"):
            old.entry(client_id, seq, number, shared=number != 3)
    old.entry("s", 4, 5, shared=True)
    old.entry("x", 4, 5, shared=True)
    old.released("r", 4)
    old.waiting_will(5 << 40 | 3, "mortal")
    old.waiting_will(5 << 40 | 4, "s")
    old.being_deleted("s226", 4 << 40 | 1, 2)
    old.rows[b"nclock"] = b"kept"
    old.rows[b"dkept"] = b"as well"
    return old

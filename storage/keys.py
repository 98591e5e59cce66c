"""Key layout of the message database: byte-ordered, one letter per kind (docs/cluster.md#on-disk).

    s slot client                     session record
    b slot client incarnation filter  subscription
    q slot client incarnation seq     queue entry
    i slot client incarnation id      open inbound QoS 2 packet id
    e slot deadline client            next deadline of a session: cluster time in ms, 0 while a client is connected
    v slot part                       snapshot of the subscriptions of a slot
    f slot client                     client whose subscriptions have changed since the snapshot of its slot
    h slot                            the slot is moving to this disk, or away from it (`sessions/slot_sessions.py`)
    p slot mid                        payload of a message in several queues of the slot
    u slot mid                        number of these queues
    z slot number                     due will of a session, or a message that a member of a shared subscription left
    j slot client incarnation         queue entries of an ended session that are being deleted
    k slot                            highest reserved number of the slot, for incarnations and wills
    y slot node                       number of the last message that the slot took from another node
    a slot mid                        QoS 2 message that another node may send again, taken by the slot
    S slot client                     will of a connected client without durable state, at its gateway
    Z slot number                     due will of such a client that waits for a lease
    r mountpoint topic                retained message
    w node boot                       watermark of the publishes of another node's boot
    w node boot number                such a publish, while a further node has not acknowledged it
    x mid                             the same, with the shared subscriptions for which this node took it
    d key                             replicated metadata
    n name                            the node's own values

The second byte of every key that belongs to sessions is their slot, so that a slot can be copied alone. Rows `S` and
`Z` belong to the node, which need not have the slot: the client has no session at the slot's primary. `client` is
mountpoint and client id, each after its length, so that no client's keys are a prefix of another's. Each durable
session of a client id has a higher incarnation than all before, so the keys of an ended session may be deleted later.

Format 1 of the data directory had keys without a slot, of the kinds m, c, l and g (`broker/slot_conversion.py`). No
other kind may use these letters.
"""

from __future__ import annotations

from functools import lru_cache

SLOT_KINDS = b"sbqiepuzjkya"
"""The kinds of keys that belong to one slot and move with it; their second byte is the slot."""

LOCAL_KINDS = b"vfhSZ"
"""The kinds of keys with a slot that only this disk has: each copy of a slot makes its own snapshots, and a client
without durable state is at its gateway."""

FENCED_KINDS = b"aeipqu"
"""The kinds of keys that are written and deleted all the time. A slot may have many deleted keys of such a kind, and no
other one: an iterator would pass over all of them."""

SERIES_KINDS = b"qpua"
"""The kinds of keys of a slot that end with a rising number of 8 bytes. The keys of one queue are a *series*, and so
are those of the messages of one boot of a node."""


def series_of(key: bytes) -> bytes:
    """The beginning that all keys of its series share; b"" if the key belongs to none."""
    return key[:-8] if key[:1] in SERIES_KINDS else b""


def end_of_series(series: bytes) -> bytes:
    """A key that is behind every key of a series."""
    return series + b"\xff" * 8


def _sized(text: str) -> bytes:
    raw = text.encode()
    return len(raw).to_bytes(2, "big") + raw


def client_key(slot: int, mountpoint: str, client_id: str) -> bytes:
    """`slot client`, the middle of the keys of one client id."""
    return bytes((slot,)) + _sized(mountpoint) + _sized(client_id)


def parse_client_key(client: bytes) -> tuple[str, str]:
    """Mountpoint and client id of a `client_key`."""
    end = 3 + int.from_bytes(client[1:3], "big")
    return client[3:end].decode(), client[end + 2 :].decode()


def mountpoint_of(client: bytes) -> str:
    """The mountpoint of a `client_key`."""
    end = 3 + int.from_bytes(client[1:3], "big")
    return client[3:end].decode()


def end_of_client_key(data: bytes, at: int = 0) -> int:
    """The place behind the `client_key` that begins at `at`."""
    end = at + 3 + int.from_bytes(data[at + 1 : at + 3], "big")
    return end + 2 + int.from_bytes(data[end : end + 2], "big")


def session_key(client: bytes) -> bytes:
    """The key of the session record of a client."""
    return b"s" + client


def local_session_key(client: bytes) -> bytes:
    """The key of the session record of a client without durable state, which only its gateway has."""
    return b"S" + client


def queue_prefix(client: bytes, incarnation: int) -> bytes:
    """The prefix of all queue entries of a session; 8 bytes of seq follow."""
    return b"q" + client + incarnation.to_bytes(8, "big")


def queue_prefix_of_slot(slot: int) -> bytes:
    """The prefix of all queue entries of a slot."""
    return b"q%c" % slot


def subscription_prefix(client: bytes, incarnation: int) -> bytes:
    """The prefix of all subscriptions of a session; the filter as the client wrote it follows."""
    return b"b" + client + incarnation.to_bytes(8, "big")


def parse_subscription_key(key: bytes) -> tuple[bytes, str]:
    """The client key and the filter, `$share` included, of a subscription."""
    end = end_of_client_key(key, 1)
    return key[1:end], key[end + 8 :].decode()


def client_of(key: bytes) -> bytes:
    """The client key in a key of the kinds s, b, q and i."""
    return key[1 : end_of_client_key(key, 1)]


def inbound_prefix(client: bytes, incarnation: int) -> bytes:
    """The prefix of all open inbound QoS 2 packet ids of a session; 2 bytes of packet id follow."""
    return b"i" + client + incarnation.to_bytes(8, "big")


def move_key(slot: int) -> bytes:
    """The key of the mark that a slot is moving."""
    return b"h%c" % slot


def deadline_key(client: bytes, deadline_ms: int) -> bytes:
    """The key of a session's next deadline. The keys of a slot sort by time."""
    return deadlines_from(client[0], deadline_ms) + client[1:]


def deadlines_from(slot: int, deadline_ms: int) -> bytes:
    """The lower bound of all keys of this slot with this deadline or a later one."""
    return b"e" + bytes((slot,)) + deadline_ms.to_bytes(8, "big")


def of_slot(kind: bytes, slot: int) -> bytes:
    """The prefix of all keys of this kind, one letter, that belong to the slot."""
    return kind + bytes((slot,))


def fences() -> list[bytes]:
    """The fences of the message database (`storage/leveldb.py`), sorted: before all keys of each kind and slot."""
    return [of_slot(b"%c" % kind, slot) for kind in FENCED_KINDS for slot in range(256)]


@lru_cache(1 << 13)
def slot_range(kind: bytes, slot: int) -> tuple[bytes, bytes]:
    """The first key of this kind, one letter, that may belong to the slot, and the first one after all these."""
    prefix = of_slot(kind, slot)
    return prefix, after(prefix)


def parse_deadline_key(key: bytes) -> tuple[bytes, int]:
    """The client key and the time of a `deadline_key`."""
    return key[1:2] + key[10:], int.from_bytes(key[2:10], "big")


def snapshot_key(slot: int, part: int) -> bytes:
    """The key of one part of the snapshot of a slot's subscriptions."""
    return b"v" + bytes((slot,)) + part.to_bytes(4, "big")


def changed_key(client: bytes) -> bytes:
    """The key of the note that a client's subscriptions differ from the snapshot of its slot."""
    return b"f" + client


def message_id(node: str, boot: int, counter: int) -> bytes:
    """A `mid` as bytes."""
    return _sized(node) + boot.to_bytes(4, "big") + counter.to_bytes(8, "big")


def payload_key(slot: int, mid: bytes) -> bytes:
    """The key of the payload that several queues of a slot share."""
    return b"p%c" % slot + mid


def payload_count_key(slot: int, mid: bytes) -> bytes:
    """The key of the number of queues of a slot that share a payload."""
    return b"u%c" % slot + mid


def will_key(slot: int, number: int) -> bytes:
    """The key of a due will of a session."""
    return b"z%c" % slot + number.to_bytes(8, "big")


def local_will_key(slot: int, number: int) -> bytes:
    """The key of such a will of a client without durable state."""
    return b"Z%c" % slot + number.to_bytes(8, "big")


def cleanup_key(prefix: bytes) -> bytes:
    """The key of the marker that the queue entries with this `queue_prefix` are being deleted."""
    return b"j" + prefix[1:]


def parse_cleanup_key(key: bytes) -> bytes:
    """The `queue_prefix` of a `cleanup_key`."""
    return b"q" + key[1:]


def reserved_key(slot: int) -> bytes:
    """The key of the highest reserved number of a slot."""
    return b"k%c" % slot


def watermark_key(node: str, boot: int) -> bytes:
    """The key of the watermark of the publishes of a node's boot."""
    return b"w" + _sized(node) + boot.to_bytes(4, "big")


def owed_key(node: str, boot: int, number: int) -> bytes:
    """The key of a publish, from a boot of another node, that waits for the acknowledgement of a further node. Numbers
    count from 1. The key sorts after the `watermark_key` of this boot and before the one of the next boot."""
    return watermark_key(node, boot) + number.to_bytes(8, "big")


def parse_watermark_key(key: bytes) -> tuple[str, int, int]:
    """Node, boot and number of an `owed_key`; the number is 0 for a `watermark_key`."""
    end = 3 + int.from_bytes(key[1:3], "big")
    return key[3:end].decode(), int.from_bytes(key[end : end + 4], "big"), int.from_bytes(key[end + 4 :], "big")


@lru_cache(4096)
def taken_key(slot: int, node: str) -> bytes:
    """The key of the last number that a slot took from another node."""
    return b"y%c" % slot + node.encode()


def parse_taken_key(key: bytes) -> str:
    """The node of a `taken_key`."""
    return key[2:].decode()


def seen_in_slot_key(slot: int, node: str, boot: int, counter: int) -> bytes:
    """The key of a QoS 2 message that a slot took from another node and that may come again."""
    return b"a%c" % slot + message_id(node, boot, counter)


def parse_seen_in_slot_key(key: bytes) -> tuple[int, str, int, int]:
    """Slot, node, boot and counter of a `seen_in_slot_key`."""
    return key[1], *parse_seen_key(key[1:])


def seen_key(node: str, boot: int, counter: int) -> bytes:
    """The key of a QoS 2 message that this node accepted from another node and may receive again."""
    return b"x" + message_id(node, boot, counter)


def parse_seen_key(key: bytes) -> tuple[str, int, int]:
    """Node, boot and counter of a `seen_key`."""
    return key[3:-12].decode(), int.from_bytes(key[-12:-8], "big"), int.from_bytes(key[-8:], "big")


def retained_prefix(mountpoint: str) -> bytes:
    """The prefix of all retained messages of a mountpoint; the topic follows."""
    return b"r" + _sized(mountpoint)


def after(prefix: bytes) -> bytes:
    """The first key after all keys that begin with `prefix`."""
    trimmed = prefix.rstrip(b"\xff")
    if not trimmed:
        raise ValueError("no key sorts after a prefix of 0xff bytes")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,))

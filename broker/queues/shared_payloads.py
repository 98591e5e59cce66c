"""Bodies of messages that several durable queues of a slot hold: stored once, with a count of these queues.

Count and queue entry are always written in the same batch, so after a crash they agree: no body is orphaned, none is
missing. Each slot has its own body and count, because a slot can move to another node alone. A message for a single
queue of a slot is stored inline in its entry, without a separate body.
"""

from __future__ import annotations

from ...storage.engine import StorageError
from ...storage.keys import message_id, payload_count_key, payload_key
from ...storage.store import Store
from .message import Message
from .records import Origins, RecordError, decode_message, encode, to_record

WORTH_SHARING = 256
"""Payload size in bytes from which one body and a reference cost less than a copy in each queue."""


def key_of(message: Message) -> bytes:
    """Return the mid of a message as it is in keys."""
    return message_id(message.origin.node, message.origin.boot, message.counter)


def hold(store: Store, slot: int, message: Message) -> bytes:
    """Count one more queue of the slot that needs this body; write it for the first one. Returns its mid as in keys.

    Raises `StorageError` if the disk fails to return the count.
    """
    mid = key_of(message)
    count_key = payload_count_key(slot, mid)
    count = store.get(count_key)
    if count is None:
        store.put(payload_key(slot, mid), encode(to_record(message)))
        store.put(count_key, b"\x00\x00\x00\x01")
    else:
        store.put(count_key, (int.from_bytes(count, "big") + 1).to_bytes(4, "big"))
    return mid


def let_go(store: Store, slot: int, mid: bytes) -> None:
    """Count one queue of the slot less that needs the body with this mid; delete the body after the last one."""
    count_key = payload_count_key(slot, mid)
    try:
        count = store.get(count_key)
    except StorageError:
        return  # the store reports the error; the body stays, because other queues may need it
    if count is None:
        return
    left = int.from_bytes(count, "big") - 1
    if left > 0:
        store.write_later(count_key, left.to_bytes(4, "big"))
    else:
        store.write_later(count_key, None)
        store.write_later(payload_key(slot, mid), None)


def load(store: Store, slot: int, mid: bytes, mountpoint: str, origins: Origins) -> Message:
    """Return the message with this mid, from its slot. Raises `RecordError` if its body is missing."""
    key = payload_key(slot, mid)
    value = store.get(key)
    if value is None:
        raise RecordError(f"message database: a queue entry refers to a body that is missing, key {key!r}")
    return decode_message(key, value, mountpoint, origins)

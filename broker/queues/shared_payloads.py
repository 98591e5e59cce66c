"""Bodies of messages that several durable queues hold: stored once, with a count of the queues that still need them.

Count and queue entry are always written in the same batch, so after a crash they agree: no body is orphaned, none is
missing. A message for a single queue is stored inline in its entry, without a separate body.
"""

from __future__ import annotations

from ...storage.engine import StorageError
from ...storage.keys import message_id
from ...storage.store import Store
from .message import Message
from .records import Origins, RecordError, decode_message, encode, to_record

WORTH_SHARING = 256
"""Payload size in bytes from which one body and a reference cost less than a copy in each queue."""


def key_of(message: Message) -> bytes:
    """Return the mid of a message as it is in keys."""
    return message_id(message.origin.node, message.origin.boot, message.counter)


def hold(store: Store, message: Message) -> bytes:
    """Count one more queue that needs this body; write the body for the first one. Returns its mid as in keys.

    Raises `StorageError` if the disk fails to return the count.
    """
    mid = key_of(message)
    count = store.get(b"c" + mid)
    if count is None:
        store.put(b"m" + mid, encode(to_record(message)))
        store.put(b"c" + mid, b"\x00\x00\x00\x01")
    else:
        store.put(b"c" + mid, (int.from_bytes(count, "big") + 1).to_bytes(4, "big"))
    return mid


def let_go(store: Store, mid: bytes) -> None:
    """Count one queue less that needs the body with this mid; delete the body after the last one."""
    try:
        count = store.get(b"c" + mid)
    except StorageError:
        return  # the store reports the error; the body stays, because other queues may need it
    if count is None:
        return
    left = int.from_bytes(count, "big") - 1
    if left > 0:
        store.write_later(b"c" + mid, left.to_bytes(4, "big"))
    else:
        store.write_later(b"c" + mid, None)
        store.write_later(b"m" + mid, None)


def load(store: Store, mid: bytes, mountpoint: str, origins: Origins) -> Message:
    """Return the message with this mid. Raises `RecordError` if its body is missing."""
    key = b"m" + mid
    value = store.get(key)
    if value is None:
        raise RecordError(f"message database: a queue entry refers to a body that is missing, key {key!r}")
    message = decode_message(key, value, mountpoint, origins)
    message.shared = True
    return message

"""The records of sessions, queue entries and messages on disk. Version 1.

Records are msgpack arrays made by msgspec: fields are only ever added at the end, with a default, so that an older
record stays readable. A record that cannot be read raises `RecordError`, which names the key.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .message import Message, Origin

QUEUED = 0
"""The entry waits to be sent, or was sent and has no answer."""
RELEASED = 2
"""QoS 2: PUBREC has arrived, the message is deleted, PUBREL is owed."""

ALL = 1 << 62
"""No entry of a queue has this seq."""


class RecordError(Exception):
    """A record of the message database cannot be read. The text has the key and the reason."""


class WillRecord(msgspec.Struct, array_like=True, gc=False):
    """The will of a session. `delay_s` is at most `max_last_will_delay`; `expiry_s` is -1 for none.

    `id` names it in the event log, and no other will of the cluster; "" in records of former versions.
    """

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: dict[str, Any] | None
    expiry_s: int
    delay_s: int
    id: str = ""


class SessionRecord(msgspec.Struct, array_like=True):
    """The state of a session that survives a restart (P7).

    `expires_at` and `will_at` are cluster time in ms, 0 for none. `next_seq` is a number that no entry has had yet.
    `attached` is True if a client was connected when the record was written, `grouped` if the session ever had a shared
    subscription. `waiting` is the number of entries in the queue, or -1 if the record does not tell; it is right until
    the next write of the record. Until `excused_until`, in cluster time in ms, a CONNECT cancels the will.
    `connect_began` is as in `LatestConnect.began`. Entries below `sent_below` were sent. If a client was connected, all
    below `sent_limit` may have been.

    `former_will`: that of the former connection, while the CONNACK that cancels it may not have left. It is due at
    `will_at`.
    """

    mountpoint: str
    client_id: str
    incarnation: int
    durable: bool
    version: int
    username: str | None
    expiry_s: int
    attached: bool
    expires_at: int
    will: WillRecord | None
    will_at: int
    first_seq: int
    next_seq: int
    sent_below: int
    overrides: dict[str, Any]
    grouped: bool = False
    waiting: int = -1
    excused_until: int = 0
    former_will: WillRecord | None = None
    sent_limit: int = ALL
    connect_began: int = 0


def deadline_of(record: SessionRecord) -> int | None:
    """The next deadline of a session in cluster time in ms: 0 while a client is connected, None if there is none."""
    if record.attached:
        return 0
    return min([when for when in (record.will_at, record.expires_at) if when], default=None)


class MessageRecord(msgspec.Struct, array_like=True, gc=False):
    """A message without its mountpoint, which is in the key or the session."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: dict[str, Any] | None
    expires_at: int
    publisher: str
    node: str
    boot: int
    counter: int


class EntryRecord(msgspec.Struct, array_like=True, gc=False):
    """A queue entry: with the message, or with its mid if several queues hold it, or only with the state RELEASED.

    `group` is the `$share/...` filter that chose this queue, empty for an ordinary subscription. `queued_at` is cluster
    time in ms, 0 in records of older versions. `again`: a former primary may have delivered the message (H-51), or an
    earlier connection has sent it (`DurableQueue.detach` with `lifo`).
    """

    state: int
    epoch: int
    qos: int
    retain: bool
    identifiers: tuple[int, ...]
    message: MessageRecord | None
    mid: bytes
    group: str
    queued_at: int = 0
    again: bool = False


class SubscriptionRecord(msgspec.Struct, array_like=True, gc=False):
    """The options of a subscription; the filter, `$share` included, is in the key.

    `due` is True until the queue has all retained messages, which the replay puts there after the SUBACK. `replay_at`
    is the first topic that may be missing.
    """

    qos: int
    no_local: bool
    retain_as_published: bool
    retain_handling: int
    identifier: int
    due: bool = False
    replay_at: str = ""


class InboundRecord(msgspec.Struct, array_like=True, gc=False):
    """An inbound QoS 2 packet id between PUBLISH and PUBREL: its mid's counter, and whether the message was routed.

    `elsewhere`: (group, filter, node) of each shared subscription whose member was chosen on another node. `done`: the
    slot of the session has moved since, and every receiver had the message before. Nobody sends it again, and the mid
    is one of a former node. `slots`: those that were at other nodes when the message was routed, or moving. `origin`:
    the slot that the mid belongs to (`slot_origin`), with the epoch as `boot`; with `done` perhaps a former node; "" if
    it belongs to this node. `members`: for each `$share` filter the slot of the durable session on this node that got
    the message. `checksum`: former versions have one there; nothing reads it. `kept`: all nodes had it as retained
    message when it was acknowledged. `digest`: `digest_of` the PUBLISH; none in rows of former versions.
    """

    boot: int
    counter: int
    routed: bool
    elsewhere: list[tuple[str, str, str]] = []
    done: bool = False
    slots: list[int] = []
    origin: str = ""
    members: dict[str, int] = {}
    checksum: int = 0
    kept: bool = False
    digest: bytes = b""


class Origins:
    """One `Origin` object for all messages of the same node and boot."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Origin] = {}

    def get(self, node: str, boot: int) -> Origin:
        """The shared `Origin` of that node and boot."""
        origin = self._known.get((node, boot))
        if origin is None:
            origin = self._known[(node, boot)] = Origin(node, boot)
        return origin


encode = msgspec.msgpack.Encoder().encode
_session = msgspec.msgpack.Decoder(SessionRecord)
_message = msgspec.msgpack.Decoder(MessageRecord)
_entry = msgspec.msgpack.Decoder(EntryRecord)
_subscription = msgspec.msgpack.Decoder(SubscriptionRecord)
_inbound = msgspec.msgpack.Decoder(InboundRecord)


def _decode(decoder: msgspec.msgpack.Decoder[Any], key: bytes, value: bytes) -> Any:
    try:
        return decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"message database: the record at key {key!r} cannot be read: {error}") from None


def decode_session(key: bytes, value: bytes) -> SessionRecord:
    """The session record found at `key`."""
    record: SessionRecord = _decode(_session, key, value)
    return record


def decode_entry(key: bytes, value: bytes) -> EntryRecord:
    """The queue entry found at `key`."""
    record: EntryRecord = _decode(_entry, key, value)
    return record


def decode_subscription(key: bytes, value: bytes) -> SubscriptionRecord:
    """The subscription found at `key`."""
    record: SubscriptionRecord = _decode(_subscription, key, value)
    return record


def decode_inbound(key: bytes, value: bytes) -> InboundRecord:
    """The inbound QoS 2 state found at `key`."""
    record: InboundRecord = _decode(_inbound, key, value)
    return record


def decode_message(key: bytes, value: bytes, mountpoint: str, origins: Origins) -> Message:
    """The message body found at `key`."""
    return to_message(_decode(_message, key, value), mountpoint, origins)


def to_record(message: Message) -> MessageRecord:
    """Return the record of a message."""
    return MessageRecord(
        message.topic,
        message.payload,
        message.qos,
        message.retain,
        message.properties,
        message.expires_at,
        message.publisher,
        message.origin.node,
        message.origin.boot,
        message.counter,
    )


def to_message(record: MessageRecord, mountpoint: str, origins: Origins) -> Message:
    """Return the message of a record."""
    properties = record.properties
    if properties and "user_property" in properties:
        properties["user_property"] = [(name, value) for name, value in properties["user_property"]]
    return Message(
        mountpoint,
        record.topic,
        record.payload,
        record.qos,
        record.retain,
        properties,
        record.expires_at,
        record.publisher,
        origins.get(record.node, record.boot),
        record.counter,
    )

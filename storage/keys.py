"""Key layout of the message database: byte-ordered, one letter per kind (docs/cluster.md#on-disk).

    s slot client                     session record
    b slot client incarnation filter  subscription
    q slot client incarnation seq     queue entry
    i slot client incarnation id      open inbound QoS 2 packet id
    m mid                             body of a message that several queues hold
    c mid                             how many of them still do
    r mountpoint topic                retained message
    w node boot                       how far the publishes of another node's boot were taken
    w node boot number                one of them that is owed to the node it was relayed to
    x mid                             QoS 2 message that another node may send again
    d key                             replicated metadata
    l number                          will that waits for a lease
    g start                           a key range that is being deleted
    n name                            the node's own values

`client` is mountpoint and client id, each with its length in front, so that no client's keys are a prefix of another's.
An incarnation is a number that no earlier session of the client id had: what an ended session left behind can be
deleted at leisure, for nobody looks there again.
"""

from __future__ import annotations


def _sized(text: str) -> bytes:
    raw = text.encode()
    return len(raw).to_bytes(2, "big") + raw


def client_key(slot: int, mountpoint: str, client_id: str) -> bytes:
    """`slot client`, the middle of the keys of one client id."""
    return bytes((slot,)) + _sized(mountpoint) + _sized(client_id)


def session_key(client: bytes) -> bytes:
    """Where the session record of a client is."""
    return b"s" + client


def queue_prefix(client: bytes, incarnation: int) -> bytes:
    """In front of all queue entries of one session; 8 bytes of seq follow."""
    return b"q" + client + incarnation.to_bytes(8, "big")


def subscription_prefix(client: bytes, incarnation: int) -> bytes:
    """In front of all subscriptions of one session; the filter as the client wrote it follows."""
    return b"b" + client + incarnation.to_bytes(8, "big")


def inbound_prefix(client: bytes, incarnation: int) -> bytes:
    """In front of all open inbound QoS 2 packet ids of one session; 2 bytes of packet id follow."""
    return b"i" + client + incarnation.to_bytes(8, "big")


def message_id(node: str, boot: int, counter: int) -> bytes:
    """A `mid` as bytes."""
    return _sized(node) + boot.to_bytes(4, "big") + counter.to_bytes(8, "big")


def watermark_key(node: str, boot: int) -> bytes:
    """Where it is noted how far the publishes of a node's boot were taken."""
    return b"w" + _sized(node) + boot.to_bytes(4, "big")


def owed_key(node: str, boot: int, number: int) -> bytes:
    """Where it is noted that a publish of a node's boot, with this number from 1 on, was taken and is still owed to the
    node that it was relayed to. It comes behind the `watermark_key` of the boot, before that of the next one."""
    return watermark_key(node, boot) + number.to_bytes(8, "big")


def parse_watermark_key(key: bytes) -> tuple[str, int, int]:
    """Node, boot and number of an `owed_key`; the number is 0 for a `watermark_key`."""
    end = 3 + int.from_bytes(key[1:3], "big")
    return key[3:end].decode(), int.from_bytes(key[end : end + 4], "big"), int.from_bytes(key[end + 4 :], "big")


def seen_key(node: str, boot: int, counter: int) -> bytes:
    """Where it is noted that a QoS 2 message was taken from another node, or in its place."""
    return b"x" + message_id(node, boot, counter)


def parse_seen_key(key: bytes) -> tuple[str, int, int]:
    """Node, boot and counter of a `seen_key`."""
    return key[3:-12].decode(), int.from_bytes(key[-12:-8], "big"), int.from_bytes(key[-8:], "big")


def retained_prefix(mountpoint: str) -> bytes:
    """In front of all retained messages of a mountpoint; the topic follows."""
    return b"r" + _sized(mountpoint)


def after(prefix: bytes) -> bytes:
    """The first key behind all keys that begin with `prefix`."""
    trimmed = prefix.rstrip(b"\xff")
    if not trimmed:
        raise ValueError("no key is behind a prefix of 0xff bytes")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,))

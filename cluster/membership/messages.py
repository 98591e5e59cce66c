"""A node's request for a lease and the leader's answer, as they travel between nodes."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from .commands import Count, Name

Natural = Annotated[int, Meta(ge=0)]


class MalformedLease(Exception):
    """Bytes that are no lease request or reply; the text says what is wrong and where."""


class LeaseRequest(Struct, array_like=True, frozen=True):
    """What a node says of itself, at most every heartbeat and only while its loop and its disk go on (H-06).

    `number` counts the requests of this process. `hears`: the peers heard on their data streams. `view`: the id of the
    view it has applied; `since`: its own row's in that view, 0 without one. `exchanged`: while it is joining, the
    incarnations `(node, since)` with which it has completed a full exchange since it entered, and itself when the rest
    of its entrance is done, too. `full`: its disk is full. `urgent`: the node waits for this lease, because it has
    none, or soon none, or has news for the leader: the answer does not wait for the leader's next heartbeat.
    """

    node: Name
    boot: Count
    process: Name
    number: Count
    hears: tuple[str, ...]
    view: Natural
    since: Natural
    exchanged: tuple[tuple[str, int], ...] = ()
    full: bool = False
    urgent: bool = False


class LeaseReply(Struct, array_like=True, frozen=True):
    """A lease for one incarnation, from the moment it sent request `number`.

    `cluster_ms` is the leader's cluster time when it answered (H-17), `full` the nodes whose disk is full (H-20).
    `held_ms`: how long the request lay with the leader, in ms: what is left of the round trip was spent on the way.
    """

    node: Name
    boot: Count
    process: Name
    number: Count
    since: Count
    cluster_ms: int
    full: tuple[str, ...] = ()
    held_ms: Natural = 0


class Goodbye(Struct, array_like=True, frozen=True):
    """This process stops. It has given back its lease: it promises nothing any more, and never asks for another."""

    node: Name
    boot: Count
    process: Name


_encoder = msgspec.msgpack.Encoder()
_goodbyes = msgspec.msgpack.Decoder(Goodbye)
_requests = msgspec.msgpack.Decoder(LeaseRequest)
_replies = msgspec.msgpack.Decoder(LeaseReply)


def encode_lease(message: LeaseRequest | LeaseReply | Goodbye) -> bytes:
    """As it travels."""
    return _encoder.encode(message)


def decode_goodbye(data: bytes) -> Goodbye:
    """Raises `MalformedLease`."""
    try:
        return _goodbyes.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedLease(f"goodbye of {len(data)} bytes: {error}") from error


def decode_request(data: bytes) -> LeaseRequest:
    """Raises `MalformedLease`."""
    try:
        return _requests.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedLease(f"lease request of {len(data)} bytes: {error}") from error


def decode_reply(data: bytes) -> LeaseReply:
    """Raises `MalformedLease`."""
    try:
        return _replies.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedLease(f"lease reply of {len(data)} bytes: {error}") from error

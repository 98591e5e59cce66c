"""The messages about leases between a node and the leader: request, reply, goodbye."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from .commands import Count, Name

Natural = Annotated[int, Meta(ge=0)]


class MalformedLease(Exception):
    """Bytes are not a lease request, reply or goodbye. The text names the error and its place."""


class LeaseRequest(Struct, array_like=True, frozen=True):
    """A node's report to the leader: at most one each heartbeat, and only while its loop and disk make progress (H-06).

    `number` counts the requests of this process. `hears`: the peers heard on their data streams. `view`: the id of the
    applied view. `entered_in_view`: the view in which the node entered, 0 if it has no row. `exchanged`: while the node
    is joining, the incarnations `(node, entered_in_view)` with which it has completed a full exchange since it entered,
    and itself once all steps of its rejoin are done. `full`: its disk is full, or it is about to leave.
    `urgent`: the leader answers before its next heartbeat, because the node has no lease, loses it soon, or has entered
    a view or hears a peer again. `slow_ms`: 0, or its disk is slow: the time of a slow commit. `cluster_ms`: the
    cluster time at which it sent this, None if it does not know cluster time (H-17).
    """

    node: Name
    boot: Count
    process: Name
    number: Count
    hears: tuple[str, ...]
    view: Natural
    entered_in_view: Natural
    exchanged: tuple[tuple[str, int], ...] = ()
    full: bool = False
    urgent: bool = False
    slow_ms: Natural = 0
    cluster_ms: int | None = None


class LeaseReply(Struct, array_like=True, frozen=True):
    """A lease for one incarnation, from the moment it sent request `number`.

    `cluster_ms` is the leader's cluster time when it answered (H-17), `full` the nodes whose requests say so (H-20).
    `held_ms`: how long the leader held the request, in ms; the rest of the round trip was network time. `slow`: the
    nodes of the view whose disk is slow, each with its `slow_ms`.
    """

    node: Name
    boot: Count
    process: Name
    number: Count
    entered_in_view: Count
    cluster_ms: int
    full: tuple[str, ...] = ()
    held_ms: Natural = 0
    slow: tuple[tuple[str, Natural], ...] = ()


class Goodbye(Struct, array_like=True, frozen=True):
    """This process stops. It has given up its lease: it acknowledges nothing more and asks for no other lease."""

    node: Name
    boot: Count
    process: Name


_encoder = msgspec.msgpack.Encoder()
_goodbyes = msgspec.msgpack.Decoder(Goodbye)
_requests = msgspec.msgpack.Decoder(LeaseRequest)
_replies = msgspec.msgpack.Decoder(LeaseReply)


def encode_lease(message: LeaseRequest | LeaseReply | Goodbye) -> bytes:
    """Returns the bytes of a message."""
    return _encoder.encode(message)


def decode_goodbye(data: bytes) -> Goodbye:
    """Decode a goodbye. Raises `MalformedLease`."""
    try:
        return _goodbyes.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedLease(f"goodbye of {len(data)} bytes: {error}") from error


def decode_request(data: bytes) -> LeaseRequest:
    """Decode a request. Raises `MalformedLease`."""
    try:
        return _requests.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedLease(f"lease request of {len(data)} bytes: {error}") from error


def decode_reply(data: bytes) -> LeaseReply:
    """Decode a reply. Raises `MalformedLease`."""
    try:
        return _replies.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedLease(f"lease reply of {len(data)} bytes: {error}") from error

"""Where other nodes may be: addresses as operators write them, and what to do with what answers there.

A node that is alone asks every address who lives there. If anybody is in a cluster, it joins that; if all are alone,
one is the first of a new cluster, and the others join it: who has clients already, for only who has none may join, else
the one with the lowest name. So nodes that start together find each other whatever the order, and a node that lost its
disk comes back to its cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from .admission import MalformedCall

WHO = "who"
"""The call that asks who lives at an address; the request is empty."""

PORT = 44053
"""The port between nodes where none is given (INV 1.5)."""


class AddressError(ValueError):
    """An address cannot be read; the text says what is expected."""


class WhoAnswer(Struct, array_like=True, frozen=True):
    """Who lives here: `cluster_id` is empty while the node is alone. `holds`: it has sessions or retained messages."""

    node: str
    cluster_id: str
    serving: bool
    holds: bool = False


def encode_who(answer: WhoAnswer) -> bytes:
    """As it travels."""
    return msgspec.msgpack.encode(answer)


def decode_who(data: bytes) -> WhoAnswer:
    """Raises `MalformedCall`."""
    try:
        return msgspec.msgpack.decode(data, type=WhoAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedCall(f"WhoAnswer of {len(data)} bytes: {error}") from error


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `NAME@HOST`, `HOST`, `HOST:PORT`, `[IPV6]:PORT` or `NAME@HOST:PORT`. Raises `AddressError`."""
    rest = text.strip().rpartition("@")[2]
    if rest.startswith("["):
        host, bracket, tail = rest[1:].partition("]")
        if not bracket or (tail and not tail.startswith(":")):
            raise AddressError(f"{text!r} is no address: [IPV6]:PORT is expected")
        port = tail[1:]
    elif rest.count(":") > 1:
        host, port = rest, ""
    else:
        host, _, port = rest.partition(":")
    if not host or (port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise AddressError(f"{text!r} is no address: NAME@HOST, HOST or HOST:PORT is expected")
    return host, int(port) if port else PORT


def written(host: str, port: int) -> str:
    """`HOST:PORT`, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def choose(me: str, found: Sequence[tuple[str, WhoAnswer]], holds: bool = False) -> str | None:
    """The address to join, None to wait: for others to join this node, or for somebody to answer.

    `found` are (address, answer) of whoever answered, this node itself included or not; `holds` is said of this node.
    """
    others = sorted([(answer.node, address, answer) for address, answer in found if answer.node != me])
    for _, address, answer in others:
        if answer.cluster_id and answer.serving:
            return address
    if any(answer.cluster_id for _, _, answer in others):
        return None  # a cluster that is just being formed, or has no majority now
    first = min([(not answer.holds, name, address) for name, address, answer in others], default=None)
    if first is not None and first[:2] < (not holds, me):
        return first[2]
    return None

"""Where other nodes may be: addresses as operators write them, and what to do with what answers there.

A node that is alone asks every address who lives there. If anybody is in a cluster, it joins that. If nobody is, a new
cluster is founded, but only when as many nodes without a cluster as the cluster is to have see each other: a node that
lost its disk looks like a new one, and the nodes that it does not see may be its cluster. One of them founds it, and
the others join: the node with clients' sessions, for only a node without any may join, else the lowest name.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from .admission import MalformedCall

WHO = "who"
"""The call that asks who lives at an address; the request is empty."""

PORT = 44053
"""The port between nodes where none is given."""


class AddressError(ValueError):
    """An address cannot be read; the text says what is expected."""


class WhoAnswer(Struct, array_like=True, frozen=True):
    """Who lives here: `cluster_id` is empty while the node is alone.

    `holds`: it has sessions or retained messages. `seeks`: it is alone, and looks for others before it takes clients.
    `sees`: the other nodes without a cluster that it saw when it looked last. `knows`: the node that asks is a member
    of its cluster.
    """

    node: str
    cluster_id: str
    serving: bool
    holds: bool = False
    seeks: bool = False
    sees: tuple[str, ...] = ()
    knows: bool = False


class Join(Struct, frozen=True):
    """Join the cluster of the node at this address, or the node there, which founds one for it."""

    address: str


class Found(Struct, frozen=True):
    """Found a cluster, which the others join."""


class Wait(Struct, frozen=True):
    """Take no clients, and look again. `reason` says for what, in a sentence without a full stop."""

    reason: str


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


def expected(places: Sequence[str], met_itself: bool) -> int:
    """How many nodes a new cluster has to have, if the configuration does not say: all that it names, and at least two.

    `met_itself`: one of these places is this node. A name may stand for any number of nodes: it counts as one.
    """
    named = {written(*parse_address(place)) for place in places if _is_address(place)}
    return max(2, len(named) + (not met_itself))


def _is_address(text: str) -> bool:
    try:
        parse_address(text)
    except AddressError:
        return False
    return True


def plan(me: str, found: Sequence[tuple[str, WhoAnswer]], size: int, holds: bool = False) -> Join | Found | Wait:
    """What a node without a cluster does now.

    `found` are (address, answer) of whoever answered, this node itself included or not; `size` is the number of nodes
    that found a cluster together; `holds` is said of this node.
    """
    others = sorted([(answer.node, address, answer) for address, answer in found if answer.node != me])
    for _, address, answer in others:
        if answer.cluster_id and answer.serving:
            return Join(address)
    members = [answer for _, _, answer in others if answer.cluster_id]
    if members:
        first = next((answer for answer in members if answer.knows), members[0])
        says = f", and knows {me} as a member of it" if first.knows else ""
        return Wait(f"{first.node} is in a cluster that has no majority now{says}")
    settled = [(not answer.holds, name, address) for name, address, answer in others if not answer.seeks]
    if settled:
        return Join(min(settled)[2])
    return _found(me, others, size, holds)


def _found(me: str, others: list[tuple[str, str, WhoAnswer]], size: int, holds: bool) -> Join | Found | Wait:
    """All that are there are without a cluster, and look for one."""
    if size == 1:
        return Found()
    names = {me, *(name for name, _, _ in others)}
    there = ", ".join(sorted(names))
    if len(names) < size:
        return Wait(
            f"no cluster is found, and {len(names)} of the {size} nodes that found a new one are there: {there}. Start "
            f"the others. If there is no cluster and this node is to found one without them: vmq-admin cluster found"
        )
    blind = [name for name, _, answer in others if not names <= {name, *answer.sees}]
    if blind:
        return Wait(f"not all of {there} see each other yet: {', '.join(blind)}")
    _, name = min([(not holds, me), *((not answer.holds, name) for name, _, answer in others)])
    return Found() if name == me else Wait(f"{name} is about to found the cluster")

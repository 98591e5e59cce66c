"""Discovery: parses the addresses that operators write, and decides to join, to found a cluster, or to wait.

A standalone node asks every address which node is there. If one of them is in a cluster, the node joins that cluster.
Otherwise a new cluster is founded, but only when the expected number of nodes without a cluster see each other: a node
that lost its disk looks like a new node, and its old cluster may be among the nodes that it does not see. One node
founds the cluster and the others join it. The founder is the node with client sessions, because only a node without
sessions may join; if no node has sessions, it is the node with the lowest name.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from .admission import MalformedCall

WHO = "who"
"""The call that asks which node is at an address; the request is empty."""

PORT = 44053
"""The default port between nodes."""


class AddressError(ValueError):
    """An address cannot be parsed. The text names the expected form."""


class WhoAnswer(Struct, array_like=True, frozen=True):
    """The answer of the node at an address. `cluster_id` is "" while the node is standalone.

    `holds`: it has sessions or retained messages. `seeks`: it is standalone and looks for others before it takes
    clients. `sees`: the other nodes without a cluster in its last round of discovery, none if it may be a member of
    one: so no other node counts it when it founds. `knows`: the asking node is a
    member of its cluster.
    """

    node: str
    cluster_id: str
    serving: bool
    holds: bool = False
    seeks: bool = False
    sees: tuple[str, ...] = ()
    knows: bool = False


class Join(Struct, frozen=True):
    """Join the cluster of the node at this address. If that node has no cluster, it founds one."""

    address: str


class Found(Struct, frozen=True):
    """Found a cluster that the others join."""


class Wait(Struct, frozen=True):
    """Take no clients, and try again later. `reason` is a sentence without a full stop. `advice` is another one: how an
    operator ends the wait who knows that there is no cluster."""

    reason: str
    advice: str = ""


def encode_who(answer: WhoAnswer) -> bytes:
    """Returns the bytes of an answer."""
    return msgspec.msgpack.encode(answer)


def decode_who(data: bytes) -> WhoAnswer:
    """Decode an answer. Raises `MalformedCall`."""
    try:
        return msgspec.msgpack.decode(data, type=WhoAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedCall(f"WhoAnswer of {len(data)} bytes: {error}") from error


def parse_address(text: str) -> tuple[str, int]:
    """Parse `NAME@HOST`, `HOST`, `HOST:PORT`, `[IPV6]:PORT` or `NAME@HOST:PORT`. Returns host and port.

    Raises `AddressError`.
    """
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
    """Returns `HOST:PORT`, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def expected(places: Sequence[str], met_itself: bool) -> int:
    """Returns the default of `discovery.expected_nodes`: the number of addresses in the configuration, at least two.

    This node counts, too; `met_itself`: it is one of these addresses. A name that stands for several nodes counts as
    one.
    """
    named = {written(*parse_address(place)) for place in places if _is_address(place)}
    return max(2, len(named) + (not met_itself))


def _is_address(text: str) -> bool:
    try:
        parse_address(text)
    except AddressError:
        return False
    return True


def plan(
    me: str, found: Sequence[tuple[str, WhoAnswer]], size: int, holds: bool = False, doubt: str = ""
) -> Join | Found | Wait:
    """Returns the next step of a node without a cluster.

    `found` has the (address, answer) of each node that answered, with or without this node itself. `size` is the number
    of nodes that found a cluster together. `holds`: this node has sessions or retained messages. `doubt` is why this
    node may be a member of a cluster that did not answer; "" if it is in none.
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
    return Wait(doubt) if doubt else _found(me, others, size, holds)


def _found(me: str, others: list[tuple[str, str, WhoAnswer]], size: int, holds: bool) -> Join | Found | Wait:
    """Returns the next step if every node that answered is without a cluster and looks for one."""
    if size == 1:
        return Found()
    names = {me, *(name for name, _, _ in others)}
    there = ", ".join(sorted(names))
    if len(names) < size:
        return Wait(
            f"no node that answers is in a cluster, and only {len(names)} of the {size} nodes that a new cluster needs "
            f"answer: {there}. Start the others",
            "If no cluster exists, this node can found one without them: vmq-admin cluster found",
        )
    blind = [name for name, _, answer in others if not names <= {name, *answer.sees}]
    if blind:
        return Wait(f"not all of {there} see each other yet: {', '.join(blind)}")
    _, name = min([(not holds, me), *((not answer.holds, name) for name, _, answer in others)])
    return Found() if name == me else Wait(f"{name} is about to found the cluster")

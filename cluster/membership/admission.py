"""Becoming a member and ceasing to be one: what a node asks of the others in single calls, and what they answer.

    join    a node that is alone asks any member; a node that is alone itself founds a cluster first
    leave   any node asks the leader to take a member out

Whoever is not the leader names it, and the caller asks there. An answer comes when the log has it.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from ..links.hello import PeerInfo
from ..links.refusal import RefusalReason
from .commands import Name
from .state_machine import MemberRow, is_unknown

_T = TypeVar("_T")

JOIN = "join"
LEAVE = "leave"

PATIENCE_S = 10.0
"""How long a call waits for the log. A removal waits for the last lease of the node to end."""


class MalformedCall(Exception):
    """A request or an answer cannot be read; the text says which and why."""


class JoinRequest(Struct, array_like=True, frozen=True):
    """Who wants to become a member. `versions` of the protocol that it speaks, lowest and highest. `replace`: although
    its name is that of a member that is away, whose disk is given up with all that only it has."""

    node: Name
    disk: Name
    boot: int
    process: Name
    address: Name
    versions: tuple[int, int]
    replace: bool = False


class LeaveRequest(Struct, array_like=True, frozen=True):
    """Who is to be a member no longer. `accept_loss`: although sessions are lost whose only copy it has."""

    node: Name
    accept_loss: bool


class CallAnswer(Struct, array_like=True, frozen=True):
    """`problem` is a sentence, empty if all is well. `ask` is the address of the leader, if it is not this node.

    `members` are (node, address) of all members after a join; `boot` is a number that the newcomer's must be above.
    """

    problem: str = ""
    ask: str = ""
    cluster_id: str = ""
    members: tuple[tuple[str, str], ...] = ()
    boot: int = 0


def encode_call(message: JoinRequest | LeaveRequest | CallAnswer) -> bytes:
    """As it travels."""
    return msgspec.msgpack.encode(message)


def decode_join(data: bytes) -> JoinRequest:
    """Raises `MalformedCall`."""
    return _decode(data, JoinRequest)


def decode_leave(data: bytes) -> LeaveRequest:
    """Raises `MalformedCall`."""
    return _decode(data, LeaveRequest)


def decode_answer(data: bytes) -> CallAnswer:
    """Raises `MalformedCall`."""
    return _decode(data, CallAnswer)


def _decode(data: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedCall(f"{kind.__name__} of {len(data)} bytes: {error}") from error


def not_the_one(row: MemberRow, hello: PeerInfo) -> str | None:
    """A start of the member that the log does not know yet is welcome, an earlier one is not (H-01); nor is
    one that was away for too long (H-16)."""
    if row.disk != hello.disk:
        return RefusalReason.NOT_YET.says(f"the disk of {hello.node} is another one than that of the member")
    if row.stale:
        return RefusalReason.STALE.says(f"{hello.node} was away for too long, and has to come back with an empty disk")
    if hello.boot < row.boot:
        return RefusalReason.CONTRADICTED.says(
            f"{hello.node} was started {row.boot} times, and this is start {hello.boot}"
        )
    if hello.boot == row.boot and hello.process != row.process:
        return RefusalReason.CONTRADICTED.says(f"start {hello.boot} of {hello.node} was another process")
    if hello.boot > row.boot and is_unknown(row, hello.earlier):
        return RefusalReason.CONTRADICTED.says(f"start {hello.boot} of {hello.node} knows nothing of start {row.boot}")
    return None

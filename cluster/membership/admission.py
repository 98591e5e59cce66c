"""The calls `join` and `leave` between nodes: requests, answers, and the check of a peer against its member row.

    join    a standalone node asks any member; if the asked node is standalone too, it founds a cluster first
    leave   any node asks the leader to remove a member

A node that is not the leader answers with the leader's address, and the caller asks there. The leader answers when the
log has the change.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Struct

from ..identity import NAME_MOST, BootNumber
from ..links.hello import PeerInfo
from ..links.refusal import RefusalReason
from .commands import Name
from .state_machine import MemberRow, MembershipState, is_unknown

_T = TypeVar("_T")

JOIN = "join"
LEAVE = "leave"

CALL_TIMEOUT_S = 10.0
"""How long a call waits for the log, in seconds. A removal waits until the node's last lease has ended."""


class MalformedCall(Exception):
    """A request or an answer cannot be decoded. The text names its kind and the error."""


class JoinRequest(Struct, array_like=True, frozen=True):
    """A node wants to become a member.

    `versions`: the lowest and highest version of the protocol that it speaks. `replace`: take over the name of a member
    that is away; the sessions and messages that only its old disk has are lost. `zone`: its zone, "" for the
    node itself. `cluster_id`: the cluster of the node that named the asked one as its leader, "" if none did.
    `if_safe`: replace only a disk of whose slots other nodes have everything; so asks a node that no operator has told
    to give that disk up.
    """

    node: Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MOST)]
    disk: Name
    boot: BootNumber
    process: Name
    address: Name
    versions: tuple[int, int]
    replace: bool = False
    zone: str = ""
    cluster_id: str = ""
    if_safe: bool = False


class LeaveRequest(Struct, array_like=True, frozen=True):
    """Remove a member. `empty`: it says itself that it has no sessions. `accept_loss` is always True and never read:
    the sender has checked before that nothing is lost, or that its operator accepts it. The field keeps its place."""

    node: Name
    accept_loss: bool
    empty: bool = False


class CallAnswer(Struct, array_like=True, frozen=True):
    """`problem` is a sentence, empty on success. `ask` is the address of the leader of `cluster_id`, if another node
    leads; then ask there (`asked_again`).

    `members` are (node, address) of all members after a join. `boot`: the caller's boot must be above this number.
    With a problem, `cluster_id` is that of a leader whose log has no member with the disk of the request.
    `undecided`: the problem is that the log has not decided in time, and it may still do so; or the leader has changed
    meanwhile, and the log may have the request of the former one. `taken`: the problem is that a member which runs has
    the name of the caller.
    """

    problem: str = ""
    ask: str = ""
    cluster_id: str = ""
    members: tuple[tuple[str, str], ...] = ()
    boot: int = 0
    undecided: bool = False
    taken: bool = False


def encode_call(message: JoinRequest | LeaveRequest | CallAnswer) -> bytes:
    """Returns the bytes of a request or an answer."""
    return msgspec.msgpack.encode(message)


def decode_join(data: bytes) -> JoinRequest:
    """Decode a request to join. Raises `MalformedCall`."""
    return _decode(data, JoinRequest)


def decode_leave(data: bytes) -> LeaveRequest:
    """Decode a request to leave. Raises `MalformedCall`."""
    return _decode(data, LeaveRequest)


def decode_answer(data: bytes) -> CallAnswer:
    """Decode an answer. Raises `MalformedCall`."""
    return _decode(data, CallAnswer)


def asked_again(method: str, request: bytes, answer: CallAnswer) -> bytes:
    """Returns the request for the leader that an answer names. A request to join names the cluster: perhaps the leader
    has just lost its data, and would found another cluster. Raises `MalformedCall`."""
    if method != JOIN:
        return request
    return encode_call(msgspec.structs.replace(decode_join(request), cluster_id=answer.cluster_id))


def _decode(data: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedCall(f"{kind.__name__} of {len(data)} bytes: {error}") from error


def objection(membership: MembershipState, hello: PeerInfo) -> str | None:
    """Returns the reason to refuse a peer's stream by the members in the log; None to accept it."""
    row = membership.members.get(hello.node)
    if row is None and hello.boot <= membership.last_possible(hello.node):
        return RefusalReason.TAKEN_OUT.says(f"{hello.node} is no longer a member")
    if row is None:
        return RefusalReason.NOT_YET.says(f"{hello.node} is not a member of this cluster")
    return member_mismatch(row, hello)


def member_mismatch(row: MemberRow, hello: PeerInfo) -> str | None:
    """Returns the reason to refuse a peer's stream, although a member has its name; None to accept it.

    A later start than the logged one is accepted. An earlier start is refused (H-01), and so is a member that was away
    for too long (H-16).
    """
    if row.disk != hello.disk and hello.boot < row.boot:  # a new disk gets a number of starts above all earlier ones
        return RefusalReason.TAKEN_OUT.says(f"the disk of {hello.node} was given up: the member now has another one")
    if row.disk != hello.disk:
        return RefusalReason.NOT_YET.says(f"{hello.node} has another disk than the member of that name")
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

"""Commands about sessions, carried out at every node of the cluster: each member looks at its own sessions.

A member that does not answer in time is named, and the others' answers stand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from ..broker.clustering.operator_port import ClusterError
from ..cluster.transport.wire import CallFailed
from .context import Context
from .reply import Alert, Cell, CommandError
from .words import Call

ANSWER_BYTES = 1 << 20
"""Most bytes of rows in one answer: a call is one message between nodes."""


class Wanted(msgspec.Struct, array_like=True):
    """A command as another node is to carry it out: arguments and flags as `Call` has them."""

    command: str
    keys: dict[str, Any]
    flags: list[tuple[str, Any]]


class Found(msgspec.Struct, array_like=True):
    """What a node says: rows, and whether there are more than it may say; clients it has no session of, or whose
    session it has without what was to be changed."""

    rows: list[tuple[Cell, ...]] = []
    cut: bool = False
    unknown: list[str] = []
    without: list[str] = []


Here = Callable[[Context, Call], Awaitable[Found]]
"""Carries a command out for the sessions of this node."""

_wanted = msgspec.msgpack.Decoder(Wanted)
_found = msgspec.msgpack.Decoder(Found)


class Answers(msgspec.Struct):
    """What the nodes said, this one first, and a text for each that did not."""

    found: list[Found]
    missing: list[str]

    def alerts(self) -> list[Alert]:
        """The texts, as parts of a command's answer."""
        return [Alert(text) for text in self.missing]


async def everywhere(context: Context, command: str, here: Here, call: Call) -> Answers:
    """Carry a command out at this node and at every other member of its cluster. Raises what `here` raises."""
    answers = Answers([await here(context, call)], [])
    office = context.cluster
    if office is None:
        return answers
    request = msgspec.msgpack.encode(Wanted(command, call.keys, call.flags))
    asked = [row for row in office.rows() if row.node != office.name]

    async def ask(node: str) -> Found | str:
        try:
            found = _found.decode(await office.ask(node, request))
        except (ClusterError, msgspec.MsgspecError) as error:
            return f"{node} did not answer: {error}"
        if found.cut:
            answers.missing.append(f"{node} has more rows than one answer holds: ask at that node.")
        return found

    running = [row.node for row in asked if row.running]
    for said in await asyncio.gather(*[ask(node) for node in running]):
        if isinstance(said, str):
            answers.missing.append(said)
        else:
            answers.found.append(said)
    answers.missing += [f"{row.node} was not asked: it does not run." for row in asked if not row.running]
    return answers


def serve(context: Context, commands: Mapping[str, Here]) -> None:
    """Answer other members of the cluster that ask for one of these commands."""

    async def operate(request: bytes) -> bytes:
        try:
            wanted = _wanted.decode(request)
        except msgspec.MsgspecError as error:
            raise CallFailed(f"the command cannot be read: {error}") from None
        here = commands.get(wanted.command)
        if here is None:
            raise CallFailed(f"{wanted.command} is not known here")
        context.server.log("info", f"vmq-admin {wanted.command}, from another node of the cluster")
        try:
            return msgspec.msgpack.encode(await here(context, Call(wanted.keys, wanted.flags, [])))
        except (CommandError, TimeoutError) as error:
            raise CallFailed(str(error) or "its disk is slow") from None

    if context.cluster is not None:
        context.cluster.operate = operate

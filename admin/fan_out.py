"""Commands about sessions, carried out at every node of the cluster: each member looks at its own sessions.

A member that does not answer in time is named, and the others' total stand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from ..broker.clustering.operator_port import ClusterError
from ..cluster.transport.wire import CallFailed
from .context import Context
from .grammar import Call
from .result import Alert, Cell, CommandError

MAX_RESULT_BYTES = 1 << 20
"""Most bytes of rows in one answer: a call is one message between nodes."""


class RemoteCommand(msgspec.Struct, array_like=True):
    """A command as another node is to carry it out: arguments and flags as `Call` has them."""

    command: str
    arguments: dict[str, Any]
    flags: list[tuple[str, Any]]


class NodeResult(msgspec.Struct, array_like=True):
    """What a node says: rows, and whether there are more than it may say; clients it has no session of, or whose
    session it has without what was to be changed."""

    rows: list[tuple[Cell, ...]] = []
    truncated: bool = False
    unknown: list[str] = []
    unchanged: list[str] = []


LocalHandler = Callable[[Context, Call], Awaitable[NodeResult]]
"""Carries a command out for the sessions of this node."""

_command_decoder = msgspec.msgpack.Decoder(RemoteCommand)
_result_decoder = msgspec.msgpack.Decoder(NodeResult)


class ClusterResult(msgspec.Struct):
    """What the nodes result, this one first, and a text for each that did not."""

    results: list[NodeResult]
    failures: list[str]

    def alerts(self) -> list[Alert]:
        """The texts, as parts of a command's answer."""
        return [Alert(text) for text in self.failures]


async def run_on_all_nodes(context: Context, command: str, handler: LocalHandler, call: Call) -> ClusterResult:
    """Carry a command out at this node and at every other member of its cluster. Raises the errors of `handler`."""
    total = ClusterResult([await handler(context, call)], [])
    cluster = context.cluster
    if cluster is None:
        return total
    request = msgspec.msgpack.encode(RemoteCommand(command, call.arguments, call.flags))
    asked = [row for row in cluster.rows() if row.node != cluster.name]

    async def ask(node: str) -> NodeResult | str:
        try:
            found = _result_decoder.decode(await cluster.ask(node, request))
        except (ClusterError, msgspec.MsgspecError) as error:
            return f"{node} did not answer: {error}"
        if found.truncated:
            total.failures.append(f"{node} has more rows than one answer holds: ask at that node.")
        return found

    running = [row.node for row in asked if row.running]
    for result in await asyncio.gather(*[ask(node) for node in running]):
        if isinstance(result, str):
            total.failures.append(result)
        else:
            total.results.append(result)
    total.failures += [f"{row.node} was not asked: it does not run." for row in asked if not row.running]
    return total


def answer_peers(context: Context, commands: Mapping[str, LocalHandler]) -> None:
    """Answer other members of the cluster that ask for one of these commands."""

    async def operate(request: bytes) -> bytes:
        try:
            command = _command_decoder.decode(request)
        except msgspec.MsgspecError as error:
            raise CallFailed(f"the command cannot be read: {error}") from None
        handler = commands.get(command.command)
        if handler is None:
            raise CallFailed(f"{command.command} is not known here")
        context.server.log("info", f"vmq-admin {command.command}, from another node of the cluster")
        try:
            return msgspec.msgpack.encode(await handler(context, Call(command.arguments, command.flags, [])))
        except (CommandError, TimeoutError) as error:
            raise CallFailed(str(error) or "its disk is slow") from None

    if context.cluster is not None:
        context.cluster.operate = operate

"""Runs a command on every node of the cluster: each member handles its own sessions.

The result names each member that did not answer in time, and has the results of the other members.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from ..broker.clustering.operator_port import ClusterError
from ..broker.reporting.journal import ADMIN_COMMAND
from ..broker.reporting.log_line import Line
from ..cluster.transport.wire import CallFailed
from .context import Context
from .grammar import Call
from .render import escape_unprintable
from .result import Alert, Cell, CommandError
from .secret_words import redacted

T = TypeVar("T")

MAX_RESULT_BYTES = 1 << 20
"""Most bytes of rows in the result of another node, because a call between nodes is one message."""


ASKED_BY = "asked by"
"""Name of one more argument: the node that asks. No command has an argument with a space in its name."""
NODE_STATUS = "node status"
"""The command that gets a node's part of `/status.json`. Monitoring asks for it every few seconds."""


class RemoteCommand(msgspec.Struct, array_like=True):
    """A command for another node: arguments and flags as in `Call`, and `ASKED_BY`."""

    command: str
    arguments: dict[str, Any]
    flags: list[tuple[str, Any]]


class NodeResult(msgspec.Struct, array_like=True):
    """The result of one node.

    `truncated`: there are more rows than fit. `unknown`: client ids without a session at the node. `unchanged`: client
    ids whose session needed no change.
    """

    rows: list[tuple[Cell, ...]] = []
    truncated: bool = False
    unknown: list[str] = []
    unchanged: list[str] = []


LocalHandler = Callable[[Context, Call], Awaitable[NodeResult]]
"""Runs a command for the sessions of this node."""

_command_decoder = msgspec.msgpack.Decoder(RemoteCommand)
_result_decoder = msgspec.msgpack.Decoder(NodeResult)


class ClusterResult(msgspec.Struct):
    """The results of the nodes, this node first, and a sentence for each node without a result.

    `incomplete`: a node that runs has not answered, or has more rows than fit.
    """

    results: list[NodeResult]
    failures: list[str]
    incomplete: bool = False

    def alerts(self) -> list[Alert]:
        """The sentences as alerts."""
        return [Alert(text) for text in self.failures]


async def run_on_all_nodes(context: Context, command: str, handler: LocalHandler, call: Call) -> ClusterResult:
    """Run a command on this node and on every other member of its cluster. Raises the errors of `handler`."""
    total = ClusterResult([await handler(context, call)], [])
    cluster = context.cluster
    if cluster is None:
        return total
    request = _request(cluster.name, command, call)
    asked = [row for row in cluster.rows() if row.node != cluster.name]

    async def ask(node: str) -> NodeResult | str:
        try:
            found = _result_decoder.decode(await cluster.ask(node, request))
        except (ClusterError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            total.incomplete = True
            return f"{node} did not answer: {error}"
        if found.truncated:
            total.incomplete = True
            total.failures.append(f"{node} has more rows than one result holds: run the command on that node.")
        return found

    running = [row.node for row in asked if row.running]
    for result in await ask_each(running, ask):
        if isinstance(result, str):
            total.failures.append(result)
        else:
            total.results.append(result)
    total.failures += [f"{row.node} was left out: it does not run." for row in asked if not row.running]
    return total


async def ask_each(nodes: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> list[T]:
    """Ask these nodes at the same time. Returns their answers in this order."""
    return await asyncio.gather(*map(ask, nodes))


async def run_on(context: Context, node: str, command: str, handler: LocalHandler, call: Call) -> NodeResult:
    """Run a command on one node of the cluster, this one or another member. Raises `CommandError`, `ClusterError`, and
    the errors of `handler`."""
    cluster = context.cluster
    if cluster is None or node == cluster.name:
        return await handler(context, call)
    try:
        return _result_decoder.decode(await cluster.ask(node, _request(cluster.name, command, call)))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CommandError(f"the answer of {node} cannot be read: {error}") from None


def answer_peers(context: Context, commands: Mapping[str, LocalHandler]) -> None:
    """Run these commands for other members of the cluster, from now on."""

    async def operate(request: bytes) -> bytes:
        try:
            command = _command_decoder.decode(request)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise CallFailed(f"the command cannot be read: {error}") from None
        handler = commands.get(command.command)
        if handler is None:
            raise CallFailed(f"{command.command} is unknown to this node")
        asking = command.arguments.pop(ASKED_BY, "another node of the cluster")
        level = "debug" if command.command == NODE_STATUS else "info"
        said = escape_unprintable(f"vmq-admin {_written(command)}, asked by {asking}")
        context.server.log(level, Line(ADMIN_COMMAND, said))
        try:
            return msgspec.msgpack.encode(await handler(context, Call(command.arguments, command.flags, [])))
        except (CommandError, ClusterError, TimeoutError) as error:
            raise CallFailed(str(error) or context.delay) from None

    if context.cluster is not None:
        context.cluster.operate = operate


def _request(me: str, command: str, call: Call) -> bytes:
    return msgspec.msgpack.encode(RemoteCommand(command, {**call.arguments, ASKED_BY: me}, call.flags))


def _written(command: RemoteCommand) -> str:
    """The command line, with secrets hidden."""
    named = [f"{name}={value}" for name, value in command.arguments.items()]
    flags = [f"--{name}" if value is None else f"--{name}={value}" for name, value in command.flags]
    return redacted([*command.command.split(), *named, *flags])

"""`cluster`: who is in it, coming in, and going out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...broker.clustering.operator_port import NodeRow, OperatorPort
from ..context import Context
from ..grammar import Argument, Call, Command, Flag
from ..result import DONE, Cell, CommandError, Part, Table, Text
from ..status import cluster_facts, members

_COLUMNS = {
    "State": "state",
    "View": "incarnation",
    "Address": "address",
    "Heard (ms)": "heard_ms",
    "Voter": "voter",
    "Stale": "stale",
    "Waiting": "waiting_bytes",
}
"""Heading behind VerneMQ's two -> field of `NodeRow`."""
SUMMARY_S, TIMEOUT_S = 5, 60
LONGEST_S = 86400
LONGEST_SUMMARY_S = 300
"""vmq-admin gives up on a node that says nothing for twice as long."""


def seconds(longest: int) -> Callable[[str], int]:
    """For a time of 1 s to `longest`: a conversion whose ValueError says what is expected."""

    def convert(text: str) -> int:
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
        if not 1 <= value <= longest:
            raise ValueError(f"a whole number of seconds, 1 to {longest}")
        return value

    return convert


def require_cluster(context: Context) -> OperatorPort:
    """The node's part in the cluster. Raises `CommandError` if it has no way to others."""
    if context.cluster is None:
        said = f"{context.node.name} is a node on its own: no listener.vmq or listener.vmqs is configured,"
        raise CommandError(f"{said} through which other nodes could reach it.")
    return context.cluster


async def _show(context: Context, call: Call) -> list[Part]:
    if not call.has("verbose"):
        return [Table(("Node", "Running"), list(members(context).items()))]
    return [_nodes(require_cluster(context), members(context))]


def _nodes(cluster: OperatorPort, running: dict[str, bool]) -> Table:
    def cells(row: NodeRow) -> tuple[Cell, ...]:
        more = [getattr(row, field) for field in _COLUMNS.values()]
        return (row.node, running[row.node], *(None if value == "" else value for value in more))

    return Table(("Node", "Running", *_COLUMNS), [cells(row) for row in cluster.rows()])


async def _status(context: Context, call: Call) -> list[Part]:
    cluster = require_cluster(context)
    facts = cluster_facts(context) or {}
    return [Table(("Status", "Value"), list(facts.items())), _nodes(cluster, members(context))]


@contextmanager
def _moving(context: Context, what: str) -> Iterator[None]:
    """One change of the membership at a time through one node; VerneMQ lets two overlap."""
    if context.membership_change:
        raise CommandError(f"{context.membership_change} is under way; wait for its end.")
    context.membership_change = what
    try:
        yield
    finally:
        context.membership_change = ""


async def _join(context: Context, call: Call) -> list[Part]:
    cluster, discovery_node = require_cluster(context), call.arguments["discovery-node"]
    if discovery_node == cluster.name:
        raise CommandError(f"{discovery_node} is this node: a node cannot join itself.")
    with _moving(context, f"cluster join discovery-node={discovery_node}"):
        await cluster.join(discovery_node, call.has("merge"), call.has("replace"))
    context.server.log("notice", f"joined the cluster of {discovery_node}")
    return [DONE]


async def _found(context: Context, call: Call) -> list[Part]:
    await require_cluster(context).found()
    return [DONE]


async def _leave(context: Context, call: Call) -> list[Part]:
    cluster, node = require_cluster(context), call.arguments["node"]
    known = [row.node for row in cluster.rows()]
    if node not in known and cluster.status().sees != "minority":  # without a lease it may not know all
        raise CommandError(f"{node} is not a member of this cluster. Members are {', '.join(known)}.")
    interval_s = float(call.flag("summary-interval", SUMMARY_S))
    timeout_s = float(call.flag("timeout", TIMEOUT_S))
    kill_sessions, accept_loss = call.has("kill_sessions"), call.has("accept-loss")
    done: list[Part] = []
    with _moving(context, f"cluster leave node={node}"):
        async for line in cluster.leave(node, kill_sessions, interval_s, timeout_s, accept_loss):
            context.server.log("notice", f"cluster leave node={node}: {line}")
            if line.startswith(DONE.text):
                done.append(Text(line))
            else:
                await call.report(line)
    if not done:
        raise CommandError(f"{node} has not left.")
    return done


COMMANDS = (
    Command(
        "cluster show",
        "The nodes of the cluster, and whether they run.",
        _show,
        flags=(Flag("verbose", "also state, view, address, when it was heard, whether it votes, whether it is stale"),),
    ),
    Command("cluster status", "What this node knows of the cluster: view, lease, leader, and the nodes.", _status),
    Command(
        "cluster join",
        "Make this node a member of the cluster that another node is in.",
        _join,
        arguments=(Argument("discovery-node", "any node of that cluster"),),
        flags=(
            Flag("merge", "although this node has sessions of its own: they come along"),
            Flag("replace", "although a member of this name is away with another disk, whose sessions are given up"),
        ),
    ),
    Command(
        "cluster found",
        "Found a cluster of this node alone, where it would wait for others: see discovery.expected_nodes.",
        _found,
    ),
    Command(
        "cluster leave",
        "Take a node out of the cluster, one that runs or one that is lost.",
        _leave,
        arguments=(Argument("node", "the node that leaves"),),
        flags=(
            Flag("kill_sessions", "close its connections and end its sessions; without it only its ports close", "k"),
            Flag(
                "summary-interval",
                "as VerneMQ has it; without effect, no sessions move",
                "i",
                "SECONDS",
                convert=seconds(LONGEST_SUMMARY_S),
            ),
            Flag(
                "timeout",
                "as VerneMQ has it; without effect, the members have 10 s",
                "t",
                "SECONDS",
                convert=seconds(LONGEST_S),
            ),
            Flag("accept-loss", "although sessions are lost that are on no other node"),
        ),
    ),
)

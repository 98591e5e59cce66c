"""`cluster`: members, status, join and leave."""

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
"""Further columns, after the two of VerneMQ -> field of `NodeRow`."""
SUMMARY_S, TIMEOUT_S = 5, 60
LONGEST_S = 86400
LONGEST_SUMMARY_S = 300
"""vmq-admin gives up after twice this time without a line from the node."""


def seconds(longest: int) -> Callable[[str], int]:
    """A parser for 1 to `longest` seconds. Its ValueError says what is expected."""

    def convert(text: str) -> int:
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
        if not 1 <= value <= longest:
            raise ValueError(f"a whole number of seconds, 1 to {longest}")
        return value

    return convert


def require_cluster(context: Context) -> OperatorPort:
    """The cluster port of the node. Raises `CommandError` for a node without listener for other nodes."""
    if context.cluster is None:
        said = f"{context.node.name} is a standalone node: no listener.vmq or listener.vmqs is configured,"
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
    """Let a node run one change of membership at a time. VerneMQ lets two overlap."""
    if context.membership_change:
        raise CommandError(f"{context.membership_change} is running; wait for its end.")
    context.membership_change = what
    try:
        yield
    finally:
        context.membership_change = ""


async def _join(context: Context, call: Call) -> list[Part]:
    cluster, discovery_node = require_cluster(context), call.arguments["discovery-node"]
    if discovery_node == cluster.name:
        raise CommandError(f"{discovery_node} is this node. A node cannot join itself.")
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
    if node not in known and cluster.status().sees != "minority":  # without a lease this node may not know all members
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
        "Show the nodes of the cluster, and whether they run.",
        _show,
        flags=(
            Flag(
                "verbose", "also state, view, address, time since the last message, vote, and whether the node is stale"
            ),
        ),
    ),
    Command("cluster status", "Show the cluster as this node sees it: view, lease, leader and nodes.", _status),
    Command(
        "cluster join",
        "Make this node a member of the cluster of another node.",
        _join,
        arguments=(
            Argument(
                "discovery-node",
                "any node of that cluster: HOST:PORT or NAME@HOST:PORT of its listener.vmq; without PORT 44053",
            ),
        ),
        flags=(
            Flag("merge", "join although this node has retained messages or clean sessions"),
            Flag("replace", "replace the member with this node's name, which has lost its disk; its sessions are lost"),
        ),
    ),
    Command(
        "cluster found",
        "Found a cluster of this node alone, without waiting for other nodes: see discovery.expected_nodes.",
        _found,
    ),
    Command(
        "cluster leave",
        "Remove a node from the cluster, running or lost.",
        _leave,
        arguments=(Argument("node", "the node that leaves"),),
        flags=(
            Flag(
                "kill_sessions",
                "give its durable sessions to other nodes, close its connections, and leave; else only its ports "
                "close. A node that does not run is removed for good in any case",
                "k",
            ),
            Flag(
                "summary-interval",
                "the seconds between two lines about the progress, rounded up to a multiple of 3",
                "i",
                "SECONDS",
                convert=seconds(LONGEST_SUMMARY_S),
            ),
            Flag(
                "timeout",
                "how long its sessions may take to move, and then to end",
                "t",
                "SECONDS",
                convert=seconds(LONGEST_S),
            ),
            Flag("accept-loss", "remove the node even if sessions are lost that cannot move"),
        ),
    ),
)

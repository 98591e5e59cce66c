"""`cluster`: who is in it, coming in, and going out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...broker.clustering.operator_port import NodeRow, OperatorPort
from ..context import Context
from ..reply import DONE, Cell, CommandError, Part, Table, Text
from ..status import cluster_facts, members
from ..words import Call, Command, Flag, Key

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


def office_of(context: Context) -> OperatorPort:
    """The node's part in the cluster. Raises `CommandError` if it has no way to others."""
    if context.cluster is None:
        said = f"{context.node.name} is a node on its own: no listener.vmq or listener.vmqs is configured,"
        raise CommandError(f"{said} through which other nodes could reach it.")
    return context.cluster


async def _show(context: Context, call: Call) -> list[Part]:
    if not call.has("verbose"):
        return [Table(("Node", "Running"), list(members(context).items()))]
    return [_nodes(office_of(context), members(context))]


def _nodes(office: OperatorPort, running: dict[str, bool]) -> Table:
    def cells(row: NodeRow) -> tuple[Cell, ...]:
        more = [getattr(row, field) for field in _COLUMNS.values()]
        return (row.node, running[row.node], *(None if value == "" else value for value in more))

    return Table(("Node", "Running", *_COLUMNS), [cells(row) for row in office.rows()])


async def _status(context: Context, call: Call) -> list[Part]:
    office = office_of(context)
    facts = cluster_facts(context) or {}
    return [Table(("Status", "Value"), list(facts.items())), _nodes(office, members(context))]


@contextmanager
def _moving(context: Context, what: str) -> Iterator[None]:
    """One change of the membership at a time through one node; VerneMQ lets two overlap."""
    if context.moving:
        raise CommandError(f"{context.moving} is under way; wait for its end.")
    context.moving = what
    try:
        yield
    finally:
        context.moving = ""


async def _join(context: Context, call: Call) -> list[Part]:
    office, discovery_node = office_of(context), call.keys["discovery-node"]
    if discovery_node == office.name:
        raise CommandError(f"{discovery_node} is this node: a node cannot join itself.")
    with _moving(context, f"cluster join discovery-node={discovery_node}"):
        await office.join(discovery_node, call.has("merge"), call.has("replace"))
    context.server.log("notice", f"joined the cluster of {discovery_node}")
    return [DONE]


async def _found(context: Context, call: Call) -> list[Part]:
    await office_of(context).found()
    return [DONE]


async def _leave(context: Context, call: Call) -> list[Part]:
    office, node = office_of(context), call.keys["node"]
    known = [row.node for row in office.rows()]
    if node not in known and office.status().sees != "minority":  # without a lease it may not know all
        raise CommandError(f"{node} is not a member of this cluster. Members are {', '.join(known)}.")
    interval_s = float(call.flag("summary-interval", SUMMARY_S))
    timeout_s = float(call.flag("timeout", TIMEOUT_S))
    kill_sessions, accept_loss = call.has("kill_sessions"), call.has("accept-loss")
    done: list[Part] = []
    with _moving(context, f"cluster leave node={node}"):
        async for line in office.leave(node, kill_sessions, interval_s, timeout_s, accept_loss):
            context.server.log("notice", f"cluster leave node={node}: {line}")
            if line.startswith(DONE.text):
                done.append(Text(line))
            else:
                await call.say(line)
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
        keys=(Key("discovery-node", "any node of that cluster"),),
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
        keys=(Key("node", "the node that leaves"),),
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

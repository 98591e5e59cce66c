"""Figures and health of this node and of its cluster, for commands and HTTP pages, with VerneMQ's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from .. import __version__
from ..cluster.slots.table import SlotTable, standalone_table
from .context import Context

if TYPE_CHECKING:
    from ..broker.node import Node

_FIGURES = {
    "msg_in": "mqtt_publish_received",
    "msg_out": "mqtt_publish_sent",
    "queue_in": "queue_message_in",
    "queue_out": "queue_message_out",
    "queue_drop": "queue_message_drop",
    "queue_unhandled": "queue_message_unhandled",
    "num_subscriptions": "router_subscriptions",
    "num_retained": "retain_messages",
    "matches_local": "router_matches_local",
    "matches_remote": "router_matches_remote",
}
"""Name of a figure -> metric."""


def figures(context: Context) -> dict[str, int | str]:
    """Name of a figure -> value, in VerneMQ's order."""
    node = context.node
    online = sum(connection.session is not None for connection in node.connections.values())
    totals = context.metrics.totals()
    return {
        "num_online": online,
        "num_offline": len(node.sessions) - online,
        **{name: totals[metric] for name, metric in _FIGURES.items()},
        "version": __version__,
    }


def members(context: Context) -> dict[str, bool]:
    """Name of a member -> whether it runs, as this node sees it."""
    cluster = context.cluster
    if cluster is None:
        return {context.node.name: not context.node.closing}
    rows = {row.node: row.running for row in cluster.rows()}
    if cluster.name in rows:
        rows[cluster.name] = not context.node.closing
    return rows


def cluster_facts(context: Context) -> dict[str, str | int | None] | None:
    """The cluster as this node sees it, with the names of `StatusRow`; None for a standalone node."""
    cluster = context.cluster
    if cluster is None:
        return None
    facts = msgspec.structs.asdict(cluster.status())
    facts["slow_disks"] = ", ".join(facts["slow_disks"])
    for name in ("serves_nobody", "no_lease", "slots_misplaced", "balance", "copies_due", "slow_disks"):
        if not facts[name]:
            del facts[name]
    return facts


def slot_table(context: Context) -> tuple[SlotTable, dict[str, str]]:
    """The slot table that this node has applied, and node -> zone. A standalone node has all slots."""
    cluster, name = context.cluster, context.node.name
    return (standalone_table(name, "-"), {name: name}) if cluster is None else cluster.slots()


def incidents(context: Context) -> list[dict[str, Any]]:
    """The last incidents that this node has seen, the oldest first; none for a standalone node."""
    cluster = context.cluster
    return [] if cluster is None else cluster.incidents()


def not_serving(context: Context) -> list[str]:
    """The reasons why a load balancer should send this node no clients. The absence of other nodes is no reason."""
    store = context.node.env.store
    reasons = ["the node is stopping"] if context.node.closing or context.node.policy.stops_soon else []
    if store.state == "failed":
        reasons.append(_STORE_FAILED.format(store.detail))
    cluster = context.cluster
    if cluster is not None:
        status = cluster.status()
        reasons += _DISK_REASONS.get(status.log_disk, [])
        states = {row.node: row.state for row in cluster.rows()}
        state = states.get(cluster.name, "stranger")
        reasons += [status.serves_nobody] if status.serves_nobody else _STATE_REASONS.get(state, [])
        if state == "serving" and status.sees == "minority" and not _takes_clients(context.node):
            reasons.append(f"the node has no lease: {status.no_lease or 'no majority of its cluster has renewed it'}")
    return reasons


def needs_restart(context: Context) -> list[str]:
    """The reasons why only a restart of the process can help. A cut, a full disk and a stop are none of them."""
    store, cluster = context.node.env.store, context.cluster
    reasons = [_STORE_FAILED.format(store.detail)] if store.state == "failed" else []
    if cluster is not None and cluster.status().log_disk == "failed":
        reasons += _DISK_REASONS["failed"]
    return reasons


def damage(context: Context) -> list[str]:
    """The damages of a node that still accepts clients, one text each, with the remedy."""
    found = context.node.env.store.damage
    return [f"the message store is damaged, the sessions concerned are refused: {found}"] if found else []


def _takes_clients(node: Node) -> bool:
    """Whether this node accepts clients without a lease."""
    return node.options.allow_register_during_netsplit == "on"


_STORE_FAILED = "the message store has failed, start the node again: {}"

_STATE_REASONS = {
    "joining": ["the node is joining the cluster"],
    "absent": ["the node is not in the cluster's view"],
    "stranger": ["the node is not a member of the cluster"],
}
"""State of this node -> reasons."""

_DISK_REASONS = {
    "full": ["the disk of the cluster's log is full"],
    "failed": ["the disk of the cluster's log has failed: start the node again"],
}
"""State of the disk with the cluster's log -> reasons. Such a node leaves the view at the next change of members."""


def missing_members(context: Context) -> list[str]:
    """The other members that do not run or do not serve, one text each."""
    cluster = context.cluster
    if cluster is None:
        return []
    rows = [row for row in cluster.rows() if row.node != cluster.name]
    gone = [f"node {row.node} does not run" for row in rows if not row.running]
    return gone + [f"node {row.node} is {row.state}" for row in rows if row.running and row.state != "serving"]


def stopped_listeners(context: Context) -> list[str]:
    """The listeners that do not run, one text each."""
    rows = [*context.server.listeners.show(), *context.http.show()]
    return [f"listener {row.type} {row.address}:{row.port} is {row.status}" for row in rows if row.status != "running"]

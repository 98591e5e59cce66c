"""One sentence about a node for its service manager: whether it serves clients, and how much of its cluster it sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...netsplit.policy import ViewState

if TYPE_CHECKING:
    from ..clustering.runtime import ClusterRuntime
    from .server import Server


def summary(server: Server) -> str:
    """How the node is now. `GET /health` has the details."""
    name, store = server.node.name, server.node.env.store
    if store.state == "failed":
        return f"{name}: the message store has failed, start the node again: {store.detail}"
    if store.state == "full":
        return f"{name} refuses messages: the disk is full."
    if server.cluster is None:
        return f"{name} serves clients."
    return f"{name} {_in_cluster(server.cluster, server.node.policy.view_state)}"


def _in_cluster(cluster: ClusterRuntime, sees: ViewState) -> str:
    if why := cluster.serves_nobody:
        return f"serves no clients: {why}."
    member = cluster.member
    if member is None or not member.clustered:
        return "serves clients, and is in no cluster."
    serving = f"{cluster.status().serving} of {len(member.membership.members)} nodes of its cluster serve"
    if sees is ViewState.WHOLE:
        return f"serves clients: {serving}."
    lease = "has no lease" if sees is ViewState.MINORITY else "misses members"
    return f"{lease}, and does what the split policy says for a {sees.value}: {serving}."

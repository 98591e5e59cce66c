"""The figures of this node that `node status` and `/status.json` show, under VerneMQ's names."""

from __future__ import annotations

from .. import __version__
from .context import Context

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
"""Name in the status -> metric."""


def figures(context: Context) -> dict[str, int | str]:
    """Name -> value, in VerneMQ's order."""
    node = context.node
    online = sum(front.session is not None for front in node.fronts.values())
    totals = context.metrics.totals()
    return {
        "num_online": online,
        "num_offline": len(node.slots) - online,
        **{name: totals[metric] for name, metric in _FIGURES.items()},
        "version": __version__,
    }


def members(context: Context) -> dict[str, bool]:
    """Node -> whether it runs, as seen from here."""
    return {context.node.name: not context.node.closing}


def not_running(context: Context) -> list[str]:
    """The listeners that ought to run and do not, one text each."""
    rows = [*context.server.listeners.show(), *context.http.show()]
    return [f"listener {row.type} {row.address}:{row.port} is {row.status}" for row in rows if row.status != "running"]

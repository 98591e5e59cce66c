"""`$SYS`: the node's counters as MQTT messages, as VerneMQ publishes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..queues.message import Message

if TYPE_CHECKING:
    from ..node import Node
    from ..timers import Timer


class Systree:
    """Publishes every `systree_interval` ms to `$SYS/NODE/name/with/slashes`, labels added up, decimal text."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._timer: Timer | None = None

    def start(self) -> None:
        """Schedule the next round as the options are now. Each round schedules the next one."""
        options = self._node.env.options
        self._node.env.timers.cancel(self._timer)
        if options.systree_enabled and options.systree_interval_ms > 0:
            self._timer = self._node.env.timers.at(self._node.env.now + options.systree_interval_ms, self._round)

    def _round(self) -> None:
        self.publish()
        self.start()

    def values(self) -> dict[str, int]:
        """Metric name -> value, added up over its labels."""
        node = self._node
        totals: dict[str, int] = {}
        for name, _, value in node.env.counters.rows():
            totals[name] = totals.get(name, 0) + value
        totals["router_subscriptions"] = node.router.subscriptions
        totals["retain_messages"] = node.retained.count
        totals["queue_processes"] = len(node.sessions)
        totals["total_active_connections"] = len(node.connections)
        return totals

    def publish(self) -> None:
        """Publish all values once."""
        node, options = self._node, self._node.env.options
        for name, value in self.values().items():
            topic = f"$SYS/{node.name}/{name.replace('_', '/')}"
            payload = str(value).encode()
            message = Message(
                options.systree_mountpoint,
                topic,
                payload,
                options.systree_qos,
                options.systree_retain,
                None,
                0,
                "",
                node.env.origin,
                node.env.numbers.next(node.env.has_rows("", topic)),
            )
            node.publisher.publish(message)

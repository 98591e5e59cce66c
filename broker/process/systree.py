"""`$SYS`: the node's metrics as MQTT messages, as VerneMQ publishes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from ..connection.turns import COPIES_PER_TURN
from ..queues.message import Message

if TYPE_CHECKING:
    from ..node import Node
    from ..timers import Timer


class Systree:
    """Publishes every `systree_interval` ms to `$SYS/NODE/name/with/slashes`, labels added up, decimal text."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._timer: Timer | None = None
        self.values: Callable[[], dict[str, int]] = self._counters
        """Returns metric -> value, added up over its labels. An administration server replaces it, to add its metrics;
        an embedded node may have none."""

    def start(self) -> None:
        """Schedule the next round as the options are now. Each round schedules the next one."""
        options = self._node.env.options
        self._node.env.timers.cancel(self._timer)
        if options.systree_enabled and options.systree_interval_ms > 0:
            self._timer = self._node.env.timers.at(self._node.env.now + options.systree_interval_ms, self._round)

    def _counters(self) -> dict[str, int]:
        node = self._node
        totals: dict[str, int] = {}
        for name, _, value in node.env.counters.rows():
            totals[name] = totals.get(name, 0) + value
        gauges = {
            "router_subscriptions": node.router.subscriptions,
            "retain_messages": node.retained.count,
            "queue_processes": len(node.sessions),
            "total_active_connections": len(node.connections),
        }
        return totals | gauges

    def _round(self) -> None:
        self._publish_rest(iter(self.values().items()), self.start)

    def publish(self) -> None:
        """Publish all values once. No client publishes them, so event logs have no rows of these messages."""
        self._publish_rest(iter(self.values().items()), lambda: None)

    def _publish_rest(self, rest: Iterator[tuple[str, int]], then: Callable[[], None]) -> None:
        """Publish until this turn has made its copies for subscribers, go on in the next turn, and call `then`."""
        env = self._node.env
        env.tick()
        most_copies = env.counters.router_matches_local + COPIES_PER_TURN
        for name, value in rest:
            self._publish_value(name, value)
            if env.counters.router_matches_local >= most_copies:
                env.after_turn(partial(self._publish_rest, rest, then))
                return
        then()

    def _publish_value(self, name: str, value: int) -> None:
        node, options = self._node, self._node.env.options
        topic = f"$SYS/{node.name}/{name.replace('_', '/')}"
        message = Message(
            options.systree_mountpoint,
            topic,
            str(value).encode(),
            options.systree_qos,
            options.systree_retain,
            None,
            0,
            "",
            node.env.origin,
            node.env.numbers.next(not node.env.events.messages),
        )
        node.publisher.publish(message)

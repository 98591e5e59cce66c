"""Counters of a node, under VerneMQ's names. Plain integers: the hot path adds to them, others read.

Counters that VerneMQ labels with the MQTT version are pairs `[v4, v5]` (3.1 counts as 4), indexed by `version == 5`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...mqtt.reasons import ReasonCode
from ...storage.durations import BOUNDS_S, Durations

PAIRS = (
    "connect_received",
    "publish_received",
    "subscribe_received",
    "unsubscribe_received",
    "pingreq_received",
    "publish_sent",
    "suback_sent",
    "unsuback_sent",
    "publish_auth_error",
    "subscribe_auth_error",
    "invalid_msg_size",
    "publish_error",
    "subscribe_error",
    "unsubscribe_error",
    "puback_invalid",
    "pubrec_invalid",
    "pubcomp_invalid",
    "keepalive_expired",
)

PLAIN = (
    "puback_sent",
    "puback_received",
    "pubrec_sent",
    "pubrec_received",
    "pubrel_sent",
    "pubrel_received",
    "pubcomp_sent",
    "pubcomp_received",
    "queue_setup",
    "queue_initialized_from_storage",
    "queue_teardown",
    "queue_message_drop",
    "queue_message_expired",
    "queue_message_unhandled",
    "queue_copy_checks",
    "queue_copy_repairs",
    "router_matches_local",
    "router_matches_remote",
    "socket_open",
    "socket_close",
    "eventlog_messages_left_out",
)

QUEUE_BOUNDS_S = (*BOUNDS_S, 60.0, 600.0, 3600.0, 86400.0)
"""The buckets of `Counters.queue_wait`: a client may be away for a day."""

_NAMES = {
    "invalid_msg_size": "mqtt_invalid_msg_size_error",
    "keepalive_expired": "client_keepalive_expired",
    "puback_invalid": "mqtt_puback_invalid_error",
    "pubrec_invalid": "mqtt_pubrec_invalid_error",
    "pubcomp_invalid": "mqtt_pubcomp_invalid_error",
}
"""Field -> metric name, where it is not `mqtt_` and the field, or the field alone for queues, router and sockets."""


def _metric(field: str) -> str:
    bare = field.startswith(("queue_", "router_", "socket_", "eventlog_"))
    return _NAMES.get(field, field if bare else f"mqtt_{field}")


class Counters:
    """All counters of one node since its start."""

    __slots__ = (
        *PAIRS,
        *PLAIN,
        "_by_code",
        "connect_error",
        "drops_by_reason",
        "publish_parked",
        "publish_unparked",
        "puback_wait",
        "queue_wait",
    )

    publish_received: list[int]
    publish_sent: list[int]
    connect_received: list[int]
    subscribe_received: list[int]
    unsubscribe_received: list[int]
    pingreq_received: list[int]
    suback_sent: list[int]
    unsuback_sent: list[int]
    publish_auth_error: list[int]
    subscribe_auth_error: list[int]
    invalid_msg_size: list[int]
    publish_error: list[int]
    subscribe_error: list[int]
    unsubscribe_error: list[int]
    puback_invalid: list[int]
    pubrec_invalid: list[int]
    pubcomp_invalid: list[int]
    keepalive_expired: list[int]
    puback_sent: int
    puback_received: int
    pubrec_sent: int
    pubrec_received: int
    pubrel_sent: int
    pubrel_received: int
    pubcomp_sent: int
    pubcomp_received: int
    queue_setup: int
    queue_initialized_from_storage: int
    queue_teardown: int
    queue_message_drop: int
    queue_message_expired: int
    queue_message_unhandled: int
    queue_copy_checks: int
    queue_copy_repairs: int
    router_matches_local: int
    router_matches_remote: int
    eventlog_messages_left_out: int
    socket_open: int
    socket_close: int

    def __init__(self) -> None:
        for name in PAIRS:
            setattr(self, name, [0, 0])
        for name in PLAIN:
            setattr(self, name, 0)
        self.connect_error = 0
        """CONNECT packets that the split policy refused."""
        self.publish_parked = self.publish_unparked = 0
        """PUBLISH packets that were parked unanswered, and how many of these were tried again so far."""
        self.puback_wait = Durations()
        """Seconds from the acceptance of a QoS 1 PUBLISH to its PUBACK; 0 in the same turn."""
        self.queue_wait = Durations(QUEUE_BOUNDS_S)
        """Seconds that messages waited in queues until they were first sent. Those sent at once do not count."""
        self._by_code: dict[tuple[str, int, int], int] = {}
        self.drops_by_reason: dict[str, int] = {}

    def _count(self, name: str, version: int, code: int) -> None:
        key = (name, 5 if version == 5 else 4, code)
        self._by_code[key] = self._by_code.get(key, 0) + 1

    def connack_sent(self, version: int, code: int) -> None:
        """A CONNACK with this return or reason code left."""
        self._count("mqtt_connack_sent", version, code)

    @property
    def accepted_connects(self) -> int:
        """Connections that got a session."""
        return sum(self._by_code.get(("mqtt_connack_sent", version, 0), 0) for version in (4, 5))

    def disconnect_received(self, version: int, code: int) -> None:
        """A DISCONNECT came."""
        self._count("mqtt_disconnect_received", version, code)

    def disconnect_sent(self, code: int) -> None:
        """A DISCONNECT left (v5)."""
        self._count("mqtt_disconnect_sent", 5, code)

    def auth_received(self, code: int) -> None:
        """An AUTH came (v5)."""
        self._count("mqtt_auth_received", 5, code)

    def auth_sent(self, code: int) -> None:
        """An AUTH left (v5)."""
        self._count("mqtt_auth_sent", 5, code)

    def drop(self, reason: str) -> None:
        """A message was dropped from a queue for this reason."""
        self.queue_message_drop += 1
        self.drops_by_reason[reason] = self.drops_by_reason.get(reason, 0) + 1

    def rows(self) -> Iterator[tuple[str, dict[str, str], int]]:
        """All counters as (metric, labels, value), in a fixed order."""
        for name in PAIRS:
            four, five = getattr(self, name)
            yield _metric(name), {"mqtt_version": "4"}, four
            yield _metric(name), {"mqtt_version": "5"}, five
        for name in PLAIN:
            yield _metric(name), {}, getattr(self, name)
        # each of these is told by another: a message routed to a queue, one that left it, a ping that was answered
        yield "queue_message_in", {}, self.router_matches_local
        yield "queue_message_out", {}, sum(self.publish_sent)
        for index, label in enumerate(("4", "5")):
            yield "mqtt_pingresp_sent", {"mqtt_version": label}, self.pingreq_received[index]
        for (name, version, code), value in sorted(self._by_code.items()):
            labels = {"mqtt_version": str(version)}
            if version == 5:
                labels["reason_code"] = ReasonCode(code).name.lower()
            else:
                labels["return_code"] = str(code)
            yield name, labels, value
        for reason, value in sorted(self.drops_by_reason.items()):
            yield "queue_message_drop_by_reason", {"reason": reason}, value

"""The configuration of the node core. Names are those of vernemq.conf where the key exists there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


class Options(msgspec.Struct, kw_only=True):
    """Limits and behaviour of one node. Units stand last in a name; -1 and 0 mean the same as in vernemq.conf.

    `load_step`: rows of the message store that a turn reads at the start. `snapshot_notes`: clients whose subscriptions
    have changed, from which a slot needs a new snapshot. `idle_session_s`, `idle_sessions`: how long, and how many,
    sessions of absent clients stay in memory.
    """

    allow_anonymous: bool = False
    max_client_id_size: int = 100
    max_subscriptions_per_client: int = 100_000
    retry_interval_s: int = 20
    max_inflight_messages: int = 20
    receive_max_client: int = 65535
    receive_max_broker: int = 65535
    max_online_messages: int = 1000
    max_offline_messages: int = 1000
    override_max_online_messages: bool = False
    queue_type: str = "fifo"
    persistent_client_expiration_s: int = 0
    max_last_will_delay_s: int = -1
    suppress_lwt_on_session_takeover: bool = False
    max_message_rate: int = 0
    max_message_size: int = 10485760
    max_connect_bytes: int = 65536
    max_filters_per_packet: int = 1000
    upgrade_outgoing_qos: bool = False
    mqtt_connect_timeout_ms: int = 5000
    topic_alias_max_client: int = 0
    topic_alias_max_broker: int = 0
    topic_max_depth: int = 10
    shared_subscription_policy: str = "prefer_local"
    disconnect_on_unauthorized_publish_v3: bool = False
    keepalive_as_warning: bool = True
    allow_register_during_netsplit: str = "off"
    allow_publish_during_netsplit: str = "off"
    allow_subscribe_during_netsplit: str = "off"
    allow_unsubscribe_during_netsplit: str = "off"
    queue_replicas: int = 2
    queue_min_in_sync: int = 1
    queue_balance: str = "auto"
    queue_balance_wait_s: int = 30
    queue_check_interval_s: int = 86_400
    queue_follower_patience_ms: int = 300
    expire_retain_cache_s: int = 0
    retained_max_messages: int = 0
    retained_max_bytes: int = 0
    memory_window: int = 256
    load_step: int = 2000
    snapshot_notes: int = 100
    idle_session_s: int = 60
    idle_sessions: int = 100_000
    max_parked_publishes: int = 20
    max_failed_logins: int = 10
    max_unanswered_packets: int = 1000
    pause_reading_bytes: int = 16 << 20
    out_buffer_bytes: int = 1 << 20
    eventlog_level: str = "session"
    eventlog_clients: tuple[str, ...] = ()
    eventlog_topics: tuple[str, ...] = ()
    systree_enabled: bool = True
    systree_interval_ms: int = 20000
    systree_mountpoint: str = ""
    systree_qos: int = 0
    systree_retain: bool = False


_FROM_SETTINGS = {
    "retry_interval": "retry_interval_s",
    "logging.keepalive_as_warning": "keepalive_as_warning",
    "mqtt_connect_timeout": "mqtt_connect_timeout_ms",
    "expire_retain_cache": "expire_retain_cache_s",
    "retained.max_messages": "retained_max_messages",
    "retained.max_bytes": "retained_max_bytes",
    "queue.memory_window": "memory_window",
    "session.max_parked_publishes": "max_parked_publishes",
    "session.max_failed_logins": "max_failed_logins",
    "session.max_unanswered_packets": "max_unanswered_packets",
    "session.max_connect_bytes": "max_connect_bytes",
    "session.max_filters_per_packet": "max_filters_per_packet",
    "flow.pause_reading_bytes": "pause_reading_bytes",
    "flow.out_buffer_bytes": "out_buffer_bytes",
    "eventlog.level": "eventlog_level",
    "eventlog.clients": "eventlog_clients",
    "eventlog.topics": "eventlog_topics",
    "systree_interval": "systree_interval_ms",
    "queue_balance_wait": "queue_balance_wait_s",
    "queue_check_interval": "queue_check_interval_s",
    "queue_follower_patience": "queue_follower_patience_ms",
}
"""Configuration key -> field, where the names differ."""

_INTERNAL = ("load_step", "snapshot_notes", "idle_session_s", "idle_sessions")
"""Fields without a configuration key. Tests and the simulator set them to small numbers."""

_NEVER = {"persistent_client_expiration": 0, "max_last_will_delay": -1}
"""Durations that the configuration names with a word (`never`, `client`), and their values here."""


PROMISES_DEPEND_ON = (
    "message_store.engine",
    "message_store.durability",
    "queue_replicas",
    "queue_min_in_sync",
    "allow_register_during_netsplit",
    "allow_publish_during_netsplit",
    "allow_subscribe_during_netsplit",
    "allow_unsubscribe_during_netsplit",
    "max_offline_messages",
    "max_online_messages",
    "queue_type",
    "persistent_client_expiration",
    "eventlog.clients",
    "eventlog.topics",
    "eventlog.redact",
)
"""Settings without whose values nobody can tell from the event log what the node has promised."""


def promised(in_force: Callable[[str], object]) -> list[str]:
    """Returns these settings as rows of the event log name them. `in_force` returns the value of a key."""
    return [f"{key}={in_force(key)}" for key in PROMISES_DEPEND_ON]


def from_settings(settings: Any) -> Options:
    """Return the options of a parsed vernemq.conf."""
    values: dict[str, Any] = {}
    for key, field in _FROM_SETTINGS.items():
        values[field] = settings[key]
    for key, never in _NEVER.items():
        value = settings[key]
        values[key + "_s"] = never if value is None else value
    for field in Options.__struct_fields__:
        if field not in values and field not in _INTERNAL:
            values[field] = settings[field]
    return Options(**values)

"""The metrics under VerneMQ's names: type and meaning of each, and the values of their labels."""

from __future__ import annotations

from ..mqtt.reasons import ReasonCode
from ..netsplit.incidents import METRICS

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


def _incidents(kind: str) -> dict[str, str]:
    return {name: text for name, (its, text) in METRICS.items() if its == kind}


COUNTERS = {
    "mqtt_connect_received": "CONNECT packets received.",
    "mqtt_connack_sent": "CONNACK packets sent, by return or reason code.",
    "mqtt_publish_received": "PUBLISH packets received.",
    "mqtt_publish_sent": "PUBLISH packets sent.",
    "mqtt_puback_received": "PUBACK packets received.",
    "mqtt_puback_sent": "PUBACK packets sent.",
    "mqtt_pubrec_received": "PUBREC packets received.",
    "mqtt_pubrec_sent": "PUBREC packets sent.",
    "mqtt_pubrel_received": "PUBREL packets received.",
    "mqtt_pubrel_sent": "PUBREL packets sent.",
    "mqtt_pubcomp_received": "PUBCOMP packets received.",
    "mqtt_pubcomp_sent": "PUBCOMP packets sent.",
    "mqtt_subscribe_received": "SUBSCRIBE packets received.",
    "mqtt_suback_sent": "SUBACK packets sent.",
    "mqtt_unsubscribe_received": "UNSUBSCRIBE packets received.",
    "mqtt_unsuback_sent": "UNSUBACK packets sent.",
    "mqtt_pingreq_received": "PINGREQ packets received.",
    "mqtt_pingresp_sent": "PINGRESP packets sent.",
    "mqtt_disconnect_received": "DISCONNECT packets received, by reason code.",
    "mqtt_disconnect_sent": "DISCONNECT packets sent, by reason code.",
    "mqtt_auth_received": "AUTH packets received, by reason code.",
    "mqtt_auth_sent": "AUTH packets sent, by reason code.",
    "mqtt_publish_auth_error": "Publishes that were not authorised.",
    "mqtt_subscribe_auth_error": "Subscriptions that were not authorised.",
    "mqtt_invalid_msg_size_error": "Packets larger than is allowed.",
    "mqtt_publish_error": "Publishes that failed, for example in a netsplit.",
    "mqtt_publish_parked": "Publishes that wait unanswered: the split policy, too few copies or a full disk.",
    "mqtt_publish_unparked": "Parked publishes that the node accepted or refused later.",
    "mqtt_subscribe_error": "Subscriptions that failed, for example in a netsplit.",
    "mqtt_unsubscribe_error": "Removals of subscriptions that failed, for example in a netsplit.",
    "mqtt_puback_invalid_error": "PUBACK packets for messages that are not in flight.",
    "mqtt_pubrec_invalid_error": "PUBREC packets for messages that are not in flight.",
    "mqtt_pubcomp_invalid_error": "PUBCOMP packets for messages that are not in flight.",
    "client_keepalive_expired": "Clients that were silent for one and a half keep alive intervals.",
    "queue_setup": "Sessions begun.",
    "queue_message_in": "Messages that entered a queue.",
    "queue_message_out": "Messages that left a queue for a client.",
    "queue_initialized_from_storage": "Sessions that were on the disk when the node started.",
    "queue_teardown": "Sessions ended.",
    "queue_message_drop": "Messages dropped from queues.",
    "queue_message_drop_by_reason": "Messages dropped from queues, by reason.",
    "queue_message_expired": "Messages that expired before they could be sent.",
    "queue_message_unhandled": "QoS 0 messages for sessions without a connection.",
    "queue_copy_checks": "Copies at other nodes that this node has compared to the end with its own rows.",
    "queue_copy_repairs": "Rows of copies at this node that were wrong, and were replaced.",
    "router_matches_local": "Sessions of this node to which messages were routed.",
    "router_matches_remote": "Other nodes to which messages were routed.",
    "socket_open": "Client connections opened at the sockets of this node.",
    "socket_close": "Client connections closed at the sockets of this node.",
    "socket_close_timeout": "Connections that did not end in time and were cut off.",
    "socket_error": "Connections that ended with an error.",
    "bytes_received": "Bytes received from clients.",
    "bytes_sent": "Bytes sent to clients.",
    "connections_refused": "Connections refused because of max_connections, or a lack of file descriptors.",
    "proxy_protocol_error": "Connections closed because of a missing or wrong PROXY header.",
    "tls_handshake_error": "TLS handshakes that failed.",
    "websocket_error": "WebSocket upgrades refused, and connections that broke WebSocket's rules.",
    "cluster_bytes_received": "Bytes received from other nodes.",
    "cluster_bytes_sent": "Bytes sent to other nodes.",
    "cluster_bytes_dropped": "Bytes for other nodes that were dropped.",
    **_incidents(COUNTER),
    "eventlog_rows_written": "Events written to the files of the event log.",
    "eventlog_rows_dropped": "Events that were dropped from the event log: overflow, disk or unencodable.",
    "eventlog_messages_left_out": "Messages whose rows the event log leaves out as a whole: filters, level, sampling.",
    "eventlog_bytes_written": "Bytes written to the files of the event log, before they are compressed.",
    "system_wallclock": "Milliseconds since the node was started.",
    "system_runtime": "Milliseconds of CPU time that the process has used.",
    "system_context_switches": "Context switches of the process.",
    "system_gc_count": "Runs of the garbage collector.",
}
"""Name -> meaning."""

GAUGES = {
    "node_info": "Always 1; the label `version` is that of the node.",
    "queue_waiting_messages": "Messages that wait in the queues of connected clients; counted every 10 s.",
    "router_subscriptions": "Subscriptions of the sessions at this node, without those of copies.",
    "retain_messages": "Retained messages.",
    "retain_memory": "Approximate bytes of memory of the retained messages.",
    "queue_processes": "Sessions, with and without a connection.",
    "active_mqtt_connections": "Connections of TCP and TLS listeners.",
    "active_mqttws_connections": "Connections of WebSocket listeners.",
    "total_active_connections": "Client connections that this node serves, for its own sockets and for gateways.",
    "relayed_connections": "Client connections whose bytes this node relays to the primaries of their client ids.",
    "relayed_sessions": "Client connections that this node serves as primary, and whose sockets are at gateways.",
    "relay_waiting_connects": "CONNECT packets that wait for the primary or registrar of their client id.",
    "local_clients": "Clients without durable state that another node registers and this node serves.",
    "registered_clients": "Clients without durable state that this node registers and another node serves.",
    "relay_window_growth": "Bytes of credit of relayed connections beyond 16 KiB for each direction.",
    "vm_memory_total": "Bytes of memory that the process takes (resident set).",
    "store_full": "1 while the disk has no space for the message store or the log of the cluster.",
    "store_failed": "1 if the message store or the log of the cluster cannot be written until the node starts again.",
    "store_damaged": "1 if a part of the message store cannot be read.",
    "store_waiting_bytes": "Bytes that this disk, or another node that needs them, does not have yet.",
    "disk_free_bytes": "Bytes that the node may still use on the file system of its data directory.",
    "disk_size_bytes": "Bytes of the file system of the data directory.",
    "cluster_members": "Members of the cluster, this node included.",
    "cluster_serving": "Members that are in the view, serve clients, and are heard by this node.",
    "cluster_view_id": "Number of the view that this node has applied; 0 for a standalone node.",
    "cluster_leader": "1 if this node leads its cluster.",
    "cluster_leased": "1 if this node may act for the cluster (whole or majority), 0 in a minority.",
    "cluster_whole": "1 if this node may act for the cluster and no member is missing.",
    "cluster_slow_disks": "Nodes of the view whose disk is slow (`queue_follower_patience`).",
    "eventlog_sampling": "1 while the event log leaves out whole messages, because its writer does not keep up.",
    "eventlog_failing": "1 while the files of the event log cannot be written.",
    "slots_primary": "Slots of which this node is primary, by the table that it has applied.",
    "slots_without_primary": "Slots that have no primary, by the table that this node has applied.",
    "slots_copied": "Slots of other nodes of which this node has a copy in sync.",
    "slots_without_copy": "Slots of this node that have fewer copies than `queue_replicas`.",
    "slots_below_minimum": "Slots of all nodes that have fewer copies than `queue_min_in_sync`.",
    "slots_misplaced": "Slots of this node that should be at another one.",
    "slots_check_due": "Slots of this node whose copies are due to be compared with its rows, and were not yet.",
    "slots_moving": "Slots with rows on this disk that move to or from this node, or wait to be deleted after a move.",
    **_incidents(GAUGE),
    "connections_paused": "Client connections that the node does not read, by reason; counted every 10 s.",
    "certificate_expiry_seconds": "End of the certificate of a listener, in seconds since 1970; 0 if it is unreadable.",
    "cluster_waiting_bytes": "Bytes of memory of messages to another member that are unacknowledged or not sent yet.",
}
"""Name -> meaning."""

HISTOGRAMS = {
    "event_loop_lag_seconds": "How late the event loop is, measured ten times a second.",
    "store_commit_seconds": "How long the disk takes for a commit of the message store.",
    "puback_wait_seconds": "From the acceptance of a QoS 1 PUBLISH to its PUBACK: 0 if no disk or node has to confirm.",
    "queue_wait_seconds": "How long messages waited in queues until they were first sent; none that is sent at once.",
}
"""Name -> meaning."""

_LABELS = {
    ReasonCode.DISCONNECT_WITH_WILL_MESSAGE: "disconnect_with_will_msg",
    ReasonCode.RE_AUTHENTICATE: "reauthenticate",
    ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR: "impl_specific_error",
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: "bad_username_or_password",
    ReasonCode.PACKET_IDENTIFIER_IN_USE: "packet_id_in_use",
    ReasonCode.PACKET_IDENTIFIER_NOT_FOUND: "packet_id_not_found",
    ReasonCode.RECEIVE_MAXIMUM_EXCEEDED: "receive_max_exceeded",
    ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED: "shared_subs_not_supported",
    ReasonCode.MAXIMUM_CONNECT_TIME: "max_connect_time",
    ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED: "subscription_ids_not_supported",
    ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED: "wildcard_subs_not_supported",
}
"""Reason codes that VerneMQ abbreviates."""

RETURN_CODES = (
    "success",
    "unsupported_protocol_version",
    "client_identifier_not_valid",
    "server_unavailable",
    "bad_username_or_password",
    "not_authorized",
)
"""CONNACK of 3.1 and 3.1.1, by number."""

_AUTH = ("success", "continue_authentication", "reauthenticate")
REASONS: dict[str, tuple[str, ...]] = {
    "mqtt_connack_sent": (
        "success",
        "unspecified_error",
        "malformed_packet",
        "protocol_error",
        "impl_specific_error",
        "unsupported_protocol_version",
        "client_identifier_not_valid",
        "bad_username_or_password",
        "not_authorized",
        "server_unavailable",
        "server_busy",
        "banned",
        "bad_authentication_method",
        "topic_name_invalid",
        "packet_too_large",
        "quota_exceeded",
        "payload_format_invalid",
        "retain_not_supported",
        "qos_not_supported",
        "use_another_server",
        "server_moved",
        "connection_rate_exceeded",
    ),
    "mqtt_disconnect_received": (
        "normal_disconnect",
        "disconnect_with_will_msg",
        "unspecified_error",
        "malformed_packet",
        "protocol_error",
        "impl_specific_error",
        "topic_name_invalid",
        "receive_max_exceeded",
        "topic_alias_invalid",
        "packet_too_large",
        "message_rate_too_high",
        "quota_exceeded",
        "administrative_action",
        "payload_format_invalid",
    ),
    "mqtt_disconnect_sent": (
        "normal_disconnect",
        "unspecified_error",
        "malformed_packet",
        "protocol_error",
        "impl_specific_error",
        "not_authorized",
        "server_busy",
        "server_shutting_down",
        "keep_alive_timeout",
        "session_taken_over",
        "topic_filter_invalid",
        "topic_name_invalid",
        "receive_max_exceeded",
        "topic_alias_invalid",
        "packet_too_large",
        "message_rate_too_high",
        "quota_exceeded",
        "administrative_action",
        "payload_format_invalid",
        "retain_not_supported",
        "qos_not_supported",
        "use_another_server",
        "server_moved",
        "shared_subs_not_supported",
        "connection_rate_exceeded",
        "max_connect_time",
        "subscription_ids_not_supported",
        "wildcard_subs_not_supported",
    ),
    "mqtt_auth_sent": _AUTH,
    "mqtt_auth_received": _AUTH,
}
"""Metric of MQTT 5 -> the reason codes that it may have; each is a series from the start."""


def reason_label(metric: str, name: str) -> str:
    """VerneMQ's name of a reason code, `name` being ours in small letters."""
    code = ReasonCode[name.upper()]
    if code == 0 and "disconnect" in metric:
        return "normal_disconnect"
    return _LABELS.get(code, name)


def described(name: str) -> tuple[str, str]:
    """Type and meaning of a metric."""
    if name in HISTOGRAMS:
        return HISTOGRAM, HISTOGRAMS[name]
    if name in GAUGES:
        return GAUGE, GAUGES[name]
    return COUNTER, COUNTERS.get(name, "")

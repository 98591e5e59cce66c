"""What the dashboard shows: one table of rows and panels, each with its queries, unit, meaning and page."""

from __future__ import annotations

from deploy.watching.panel import GREEN, ORANGE, RED, Panel, Query, Row

METRICS = "operations.md#metrics"
STATES = {0: ("minority", RED), 1: ("majority", ORANGE), 2: ("whole", GREEN)}
STORES = {0: ("serving", GREEN), 1: ("full", ORANGE), 2: ("failed", RED), 3: ("full and failed", RED)}

FIRING = Query('ALERTS{@job, alertname=~"Strogoff.+", alertstate="firing"}', "")


def half_and_most(histogram: str) -> tuple[Query, Query]:
    """The durations that 50 % and 99 % of those in a histogram did not exceed, for each node."""
    rates = f"sum by (node, le) (rate({histogram}_bucket{{@}}[@]))"
    return (
        Query(f"histogram_quantile(0.5, {rates})", "{{node}} 50 %"),
        Query(f"histogram_quantile(0.99, {rates})", "{{node}} 99 %"),
    )


CLUSTER = Row(
    "Cluster",
    (
        Panel(
            "Nodes that do not answer",
            "short",
            "Nodes whose page of metrics Prometheus cannot read.",
            "operations.md#a-node-dies",
            (Query("count(up{@job} == 0) or 0 * count(up{@job})", "down"),),
            kind="stat",
            width=4,
            height=5,
            steps={0: GREEN, 1: RED},
        ),
        Panel(
            "Members that do not serve",
            "short",
            "Members of the cluster that are not in the view, or are still joining. The node that sees most of them "
            "counts.",
            "operations.md#a-member-will-not-come-back",
            (Query("max(vernemq_cluster_members{@} - vernemq_cluster_serving{@})", "absent"),),
            kind="stat",
            width=4,
            height=5,
            steps={0: GREEN, 1: ORANGE},
        ),
        Panel(
            "Leader",
            "short",
            "The node that leads the cluster. It renews the leases of the others, so a change costs up to a few "
            "seconds.",
            "cluster.md",
            (Query("vernemq_cluster_leader{@} == 1", "{{node}}"),),
            kind="stat",
            width=4,
            height=5,
        ),
        Panel(
            "State of each node",
            "short",
            "whole: no member is missing. majority: members are missing, and this node serves with the others. "
            "minority: this node has no lease, and accepts only what the split policy allows.",
            "netsplit.md",
            (Query("vernemq_cluster_leased{@} + vernemq_cluster_whole{@}", "{{node}}"),),
            kind="state-timeline",
            width=12,
            height=5,
            words=STATES,
        ),
        Panel(
            "Alerts that fire",
            "short",
            "The alerts of deploy/watching/alerts.yml. Each has a section of docs/operations.md that says what to do.",
            "operations.md#alerts",
            (FIRING,),
            kind="table",
            width=12,
        ),
        Panel(
            "Nodes",
            "short",
            "Each node with its version, seconds since its start, clients, sessions and slots.",
            METRICS,
            (
                Query("max by (node, version) (vernemq_node_info{@})", "version"),
                Query("time() - max by (node) (process_start_time_seconds{@})", "Uptime (s)"),
                Query("max by (node) (vernemq_cluster_view_id{@})", "View"),
                Query("max by (node) (vernemq_total_active_connections{@})", "Clients"),
                Query("max by (node) (vernemq_queue_processes{@})", "Sessions"),
                Query("max by (node) (vernemq_slots_primary{@})", "Slots"),
            ),
            kind="table",
            width=12,
            key="node",
        ),
        Panel(
            "Bytes between nodes",
            "Bps",
            "What each node sends to the other nodes, and gets from them.",
            METRICS,
            (
                Query("rate(vernemq_cluster_bytes_sent{@}[@])", "{{node}} sends"),
                Query("rate(vernemq_cluster_bytes_received{@}[@])", "{{node}} gets"),
            ),
        ),
        Panel(
            "Silent members and incidents",
            "short",
            "Suspicions in an interval: a member was silent for a second. An incident is open while members are "
            "missing. Suspicions without incidents are a sign of a slow network, disk or processor.",
            "operations.md#incidents",
            (
                Query("increase(vernemq_netsplit_suspected{@}[@])", "{{node}} suspicions"),
                Query("vernemq_netsplit_open{@}", "{{node}} open incident"),
            ),
        ),
        Panel(
            "Window of Uncertainty",
            "ms",
            "How long the node accepted operations in its last incident before it noticed that members were missing.",
            "netsplit.md#incidents-and-the-window-of-uncertainty",
            (Query("vernemq_netsplit_last_window_ms{@}", "{{node}}"),),
        ),
    ),
)

CLIENTS = Row(
    "Clients and sessions",
    (
        Panel(
            "Clients",
            "short",
            "Client connections that each node serves, for its own sockets and for those of other nodes.",
            METRICS,
            (Query("vernemq_total_active_connections{@}", "{{node}}"),),
            stacked=True,
        ),
        Panel(
            "Sockets",
            "short",
            "Connections of each node's listeners, and those whose bytes it relays to the primary of the client id.",
            METRICS,
            (
                Query("vernemq_active_mqtt_connections{@}", "{{node}} TCP, TLS"),
                Query("vernemq_active_mqttws_connections{@}", "{{node}} WebSocket"),
                Query("vernemq_relayed_connections{@}", "{{node}} relayed"),
            ),
        ),
        Panel(
            "Sessions",
            "short",
            "Sessions of each node, with and without a connection.",
            METRICS,
            (Query("vernemq_queue_processes{@}", "{{node}}"),),
            stacked=True,
        ),
        Panel(
            "Connections opened and closed",
            "cps",
            "Many of both: clients connect again and again. Look at the refusals, and at the keep alive.",
            METRICS,
            (
                Query("sum(rate(vernemq_socket_open{@}[@]))", "opened"),
                Query("sum(rate(vernemq_socket_close{@}[@]))", "closed"),
                Query("sum(rate(vernemq_client_keepalive_expired{@}[@]))", "closed after silence"),
            ),
        ),
        Panel(
            "Answers to CONNECT",
            "cps",
            "CONNACK packets by return code (MQTT 3) or reason code (MQTT 5).",
            "operations.md#clients-are-refused",
            (
                Query(
                    "sum by (return_code, reason_code) (rate(vernemq_mqtt_connack_sent{@}[@])) > 0",
                    "{{return_code}}{{reason_code}}",
                ),
            ),
        ),
        Panel(
            "Subscriptions and retained messages",
            "short",
            "Subscriptions of each node. Each node has all retained messages.",
            METRICS,
            (
                Query("vernemq_router_subscriptions{@}", "{{node}} subscriptions"),
                Query("max(vernemq_retain_messages{@})", "retained messages"),
            ),
        ),
    ),
)

TRAFFIC = Row(
    "Traffic",
    (
        Panel(
            "Publishes received",
            "mps",
            "PUBLISH packets from clients.",
            METRICS,
            (Query("sum by (node) (rate(vernemq_mqtt_publish_received{@}[@]))", "{{node}}"),),
            stacked=True,
        ),
        Panel(
            "Deliveries",
            "mps",
            "PUBLISH packets to clients, with those that are sent again.",
            METRICS,
            (Query("sum by (node) (rate(vernemq_mqtt_publish_sent{@}[@]))", "{{node}}"),),
            stacked=True,
        ),
        Panel(
            "Messages that no client gets",
            "mps",
            "Dropped by reason, expired, and messages with QoS 0 for clients without a connection.",
            "operations.md#messages-are-dropped",
            (
                Query("sum by (reason) (rate(vernemq_queue_message_drop_by_reason{@}[@]))", "dropped: {{reason}}"),
                Query("sum(rate(vernemq_queue_message_expired{@}[@]))", "expired"),
                Query("sum(rate(vernemq_queue_message_unhandled{@}[@]))", "QoS 0, client away"),
            ),
        ),
        Panel(
            "Bytes from and to clients",
            "Bps",
            "Bytes of MQTT or WebSocket, without TLS.",
            METRICS,
            (
                Query("rate(vernemq_bytes_received{@}[@])", "{{node}} received"),
                Query("rate(vernemq_bytes_sent{@}[@])", "{{node}} sent"),
            ),
        ),
        Panel(
            "Acknowledgements to publishers",
            "mps",
            "PUBACK (QoS 1) and PUBREC (QoS 2). Each says that the message is on the disks of all nodes that need it.",
            METRICS,
            (
                Query("sum(rate(vernemq_mqtt_puback_sent{@}[@]))", "PUBACK"),
                Query("sum(rate(vernemq_mqtt_pubrec_sent{@}[@]))", "PUBREC"),
            ),
        ),
        Panel(
            "Routing",
            "mps",
            "Matches of published messages: sessions of the same node, and other nodes that the message goes to.",
            METRICS,
            (
                Query("sum(rate(vernemq_router_matches_local{@}[@]))", "to sessions"),
                Query("sum(rate(vernemq_router_matches_remote{@}[@]))", "to other nodes"),
            ),
        ),
    ),
)

QUEUES = Row(
    "Queues and copies",
    (
        Panel(
            "Slots that lack something",
            "short",
            "Without a primary: their clients are refused. Below queue_min_in_sync: nothing new is accepted for their "
            "sessions. Fewer copies than queue_replicas: a second failure hits them.",
            "operations.md#slots-have-too-few-copies",
            (
                Query("max by (job) (vernemq_slots_without_primary{@})", "without primary"),
                Query("max by (job) (vernemq_slots_below_minimum{@})", "below queue_min_in_sync"),
                Query("sum by (job) (vernemq_slots_without_copy{@})", "fewer copies than queue_replicas"),
            ),
        ),
        Panel(
            "Slots of each node",
            "short",
            "Slots whose sessions a node serves, and slots of which it has a copy.",
            "operations.md#slots",
            (
                Query("vernemq_slots_primary{@}", "{{node}} primary"),
                Query("vernemq_slots_copied{@}", "{{node}} copy"),
            ),
        ),
        Panel(
            "Slots on their way",
            "short",
            "Slots that should be at another node, that move, and whose copies are due to be compared.",
            "operations.md#slots",
            (
                Query("sum(vernemq_slots_misplaced{@})", "misplaced"),
                Query("sum(vernemq_slots_moving{@})", "moving"),
                Query("sum(vernemq_slots_check_due{@})", "comparison due"),
            ),
        ),
        Panel(
            "Messages into and out of queues",
            "mps",
            "If more enter than leave, queues grow. A message that is sent again leaves twice, so this is an estimate.",
            "operations.md#queues-grow",
            (
                Query("sum(rate(vernemq_queue_message_in{@}[@]))", "in"),
                Query("sum(rate(vernemq_queue_message_out{@}[@]))", "out"),
            ),
        ),
        Panel(
            "Messages that wait for connected clients",
            "short",
            "They are in queues, because the client has its Receive Maximum of unanswered messages, or does not read.",
            "operations.md#queues-grow",
            (Query("vernemq_queue_waiting_messages{@}", "{{node}}"),),
        ),
        Panel(
            "Wait in a queue",
            "s",
            "How long messages waited in queues until they were first sent: half of them, and 99 % of them, at most "
            "this long. Messages that were sent at once do not count. A client that was away makes this long.",
            "operations.md#queues-grow",
            half_and_most("vernemq_queue_wait_seconds"),
        ),
        Panel(
            "Wait for PUBACK",
            "s",
            "From the acceptance of a QoS 1 PUBLISH to its PUBACK: half of them, and 99 % of them, take at most this "
            "long. Disks and copies at other nodes have confirmed by then.",
            "operations.md#publishers-get-no-puback",
            half_and_most("vernemq_puback_wait_seconds"),
        ),
        Panel(
            "Owed to other members",
            "bytes",
            "Memory of messages that a member has not acknowledged. It grows while the member is absent or slow.",
            "operations.md#publishers-get-no-puback",
            (Query("vernemq_cluster_waiting_bytes{@}", "{{node}} to {{member}}"),),
        ),
        Panel(
            "Clients that are not read",
            "short",
            "Client connections that the node does not read, by reason. cluster and disk: publishers wait. A few for a "
            "moment are normal.",
            METRICS,
            (Query("sum by (reason) (vernemq_connections_paused{@})", "{{reason}}"),),
        ),
        Panel(
            "Parked publishes",
            "mps",
            "Publishes that wait unanswered, because the node may not accept them now: the split policy, a slot with "
            "too few copies, or a full disk.",
            "operations.md#publishes-are-refused",
            (
                Query("sum(rate(vernemq_mqtt_publish_parked{@}[@]))", "parked"),
                Query("sum(rate(vernemq_mqtt_publish_unparked{@}[@]))", "tried again"),
            ),
        ),
        Panel(
            "Copies compared",
            "short",
            "Copies that were compared in an hour, and wrong rows that were replaced. Each wrong row is a sign of a "
            "bad disk.",
            "operations.md#wrong-rows-in-a-copy",
            (
                Query("sum(increase(vernemq_queue_copy_checks{@}[1h]))", "compared"),
                Query("sum by (node) (increase(vernemq_queue_copy_repairs{@}[1h]))", "{{node}} wrong rows"),
            ),
        ),
        Panel(
            "CONNECTs that wait",
            "short",
            "CONNECT packets that wait for the primary or registrar of their client id.",
            METRICS,
            (Query("vernemq_relay_waiting_connects{@}", "{{node}}"),),
        ),
    ),
)

STORAGE = Row(
    "Storage and disk",
    (
        Panel(
            "State of the store",
            "short",
            "full: the node refuses what it would have to write, and goes on when there is space. failed: start it "
            "again.",
            "operations.md#a-disk-is-full-or-has-failed",
            (Query("vernemq_store_full{@} + 2 * vernemq_store_failed{@}", "{{node}}"),),
            kind="state-timeline",
            words=STORES,
        ),
        Panel(
            "Free space",
            "percentunit",
            "Free part of the file system with the data directory.",
            "operations.md#a-disk-is-full-or-has-failed",
            (Query("vernemq_disk_free_bytes{@} / vernemq_disk_size_bytes{@}", "{{node}}"),),
            steps={0: RED, 0.1: ORANGE, 0.2: GREEN},
        ),
        Panel(
            "Free bytes",
            "bytes",
            "Bytes that the node may still use.",
            METRICS,
            (Query("vernemq_disk_free_bytes{@}", "{{node}}"),),
        ),
        Panel(
            "Time of a commit",
            "s",
            "How long the disk takes for a commit: half of them, and 99 % of them, take at most this long. "
            "Acknowledgements wait for it.",
            "operations.md#a-disk-is-slow",
            half_and_most("vernemq_store_commit_seconds"),
        ),
        Panel(
            "Commits",
            "ops",
            "Commits of the message store. One commit has the writes of all clients in a turn.",
            "storage.md",
            (Query("rate(vernemq_store_commit_seconds_count{@}[@])", "{{node}}"),),
        ),
        Panel(
            "Bytes that wait for disks",
            "bytes",
            "What this disk, or another node that needs it, does not have yet.",
            METRICS,
            (Query("vernemq_store_waiting_bytes{@}", "{{node}}"),),
        ),
        Panel(
            "Slow and damaged disks",
            "short",
            "Nodes whose commits are slow, as the others see it, and nodes that cannot read a part of their store.",
            "operations.md#a-disk-is-slow",
            (
                Query("max by (job) (vernemq_cluster_slow_disks{@})", "slow"),
                Query("sum by (job) (vernemq_store_damaged{@})", "damaged"),
            ),
        ),
        Panel(
            "Event log",
            "rps",
            "Events that the node has written to its event log, and those that it has dropped.",
            "eventlog.md",
            (
                Query("rate(vernemq_eventlog_rows_written{@}[@])", "{{node}} written"),
                Query("rate(vernemq_eventlog_rows_dropped{@}[@])", "{{node}} dropped"),
            ),
        ),
        Panel(
            "Event log in trouble",
            "short",
            "1 while the files of the event log cannot be written, or while it leaves out messages.",
            "operations.md#the-event-log-has-gaps",
            (
                Query("vernemq_eventlog_failing{@}", "{{node}} cannot be written"),
                Query("vernemq_eventlog_sampling{@}", "{{node}} leaves out messages"),
            ),
        ),
    ),
)

PROCESS = Row(
    "Process",
    (
        Panel(
            "Processor",
            "percentunit",
            "Processor time of the process. All clients of a node share one event loop, so about 100 % is its limit.",
            "performance.md",
            (Query("rate(process_cpu_seconds_total{@}[@])", "{{node}}"),),
            steps={0: GREEN, 0.7: ORANGE, 0.9: RED},
        ),
        Panel(
            "Lag of the event loop",
            "s",
            "How long work that is due waits for the work before it: half of the times, and 99 % of them, at most this "
            "long. Every packet waits that long.",
            "operations.md#the-event-loop-is-late",
            half_and_most("vernemq_event_loop_lag_seconds"),
        ),
        Panel(
            "Memory",
            "bytes",
            "Resident memory of the process, and the part of it that retained messages take.",
            METRICS,
            (
                Query("process_resident_memory_bytes{@}", "{{node}}"),
                Query("max(vernemq_retain_memory{@})", "retained messages"),
            ),
        ),
        Panel(
            "File descriptors",
            "percentunit",
            "Open descriptors, as a part of the limit. The node keeps some for files and refuses connections before "
            "all are in use.",
            "operations.md#file-descriptors-run-out",
            (Query("process_open_fds{@} / process_max_fds{@}", "{{node}}"),),
            steps={0: GREEN, 0.7: ORANGE, 0.8: RED},
        ),
        Panel(
            "Garbage collections",
            "ops",
            "Runs of the garbage collector of Python.",
            METRICS,
            (Query("rate(vernemq_system_gc_count{@}[@])", "{{node}}"),),
        ),
        Panel(
            "Starts",
            "short",
            "How often the process has started in the last hour.",
            "operations.md#a-node-starts-again-and-again",
            (Query("changes(process_start_time_seconds{@}[1h])", "{{node}}"),),
        ),
    ),
)

ERRORS = Row(
    "Errors and refusals",
    (
        Panel(
            "Refused CONNECTs",
            "cps",
            "CONNACK packets that refuse the client, by code.",
            "operations.md#clients-are-refused",
            (
                Query(
                    "sum by (return_code, reason_code) (rate(vernemq_mqtt_connack_sent"
                    '{@, return_code!="success", reason_code!="success"}[@]))',
                    "{{return_code}}{{reason_code}}",
                ),
            ),
        ),
        Panel(
            "Refused connections",
            "cps",
            "Connections that ended before a CONNECT: too many, or errors of TLS, WebSocket and the PROXY protocol.",
            "operations.md#clients-are-refused",
            (
                Query("sum(rate(vernemq_connections_refused{@}[@]))", "too many connections"),
                Query("sum(rate(vernemq_tls_handshake_error{@}[@]))", "TLS"),
                Query("sum(rate(vernemq_websocket_error{@}[@]))", "WebSocket"),
                Query("sum(rate(vernemq_proxy_protocol_error{@}[@]))", "PROXY"),
            ),
        ),
        Panel(
            "Refused publishes and subscriptions",
            "ops",
            "not authorised: plugins and ACL files. not possible: the split policy, too few copies, or a full disk.",
            "operations.md#publishes-are-refused",
            (
                Query("sum(rate(vernemq_mqtt_publish_auth_error{@}[@]))", "publish not authorised"),
                Query("sum(rate(vernemq_mqtt_subscribe_auth_error{@}[@]))", "subscribe not authorised"),
                Query("sum(rate(vernemq_mqtt_publish_error{@}[@]))", "publish not possible"),
                Query("sum(rate(vernemq_mqtt_subscribe_error{@}[@]))", "subscribe not possible"),
                Query("sum(rate(vernemq_mqtt_unsubscribe_error{@}[@]))", "unsubscribe not possible"),
            ),
        ),
        Panel(
            "Disconnects by the node",
            "cps",
            "DISCONNECT packets to clients of MQTT 5, by reason code.",
            METRICS,
            (Query("sum by (reason_code) (rate(vernemq_mqtt_disconnect_sent{@}[@])) > 0", "{{reason_code}}"),),
        ),
        Panel(
            "Broken connections and wrong packets",
            "cps",
            "Connections that ended with an error or were cut off, and packets that are too large or answer nothing.",
            METRICS,
            (
                Query("sum(rate(vernemq_socket_error{@}[@]))", "ended with an error"),
                Query("sum(rate(vernemq_socket_close_timeout{@}[@]))", "cut off"),
                Query("sum(rate(vernemq_mqtt_invalid_msg_size_error{@}[@]))", "packet too large"),
                Query("sum(rate(vernemq_mqtt_puback_invalid_error{@}[@]))", "wrong PUBACK"),
                Query("sum(rate(vernemq_mqtt_pubrec_invalid_error{@}[@]))", "wrong PUBREC"),
                Query("sum(rate(vernemq_mqtt_pubcomp_invalid_error{@}[@]))", "wrong PUBCOMP"),
            ),
        ),
        Panel(
            "Certificates",
            "s",
            "Time until the certificate of a listener ends. The node reads certificates when a listener opens.",
            "operations.md#a-certificate-ends-soon",
            (Query("vernemq_certificate_expiry_seconds{@} - time()", "{{node}} {{listener}}"),),
            kind="bargauge",
            steps={0: RED, 2 * 86400: ORANGE, 14 * 86400: GREEN},
        ),
    ),
)

ROWS = (CLUSTER, CLIENTS, TRAFFIC, QUEUES, STORAGE, PROCESS, ERRORS)

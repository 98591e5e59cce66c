"""The error text for each kind of mistake. The text is the specification."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

ADDRESS = "IP:PORT, such as 127.0.0.1:1883 or [::1]:1883"
LEVELS = "debug, info, notice, warning, error, critical, alert, emergency"
LIFETIME = "a number with s, h, d, w, m (4 weeks) or y (48 weeks), such as 1w"
TLS = "tlsv1, tlsv1.1, tlsv1.2, tlsv1.3"

CASES = [
    ("allow_anonymouss = on", ": allow_anonymouss: unknown key", ["did you mean allow_anonymous?"]),
    ("completely.different = 1", ": completely.different: unknown key", []),
    (
        "listener.tcp.mine.max_conections = 5",
        ": listener.tcp.mine.max_conections: unknown key",
        ["did you mean listener.tcp.mine.max_connections?"],
    ),
    (
        "listener.tcp.max_conections = 5",
        ": listener.tcp.max_conections: wrong value",
        [f"expected {ADDRESS}, or local:/PATH:0", 'found "5"', "did you mean listener.tcp.max_connections?"],
    ),
    ("just words", ": this is no setting", ["expected key = value", 'found "just words"']),
    ("= on", ": this is no setting", ["expected key = value", 'found "= on"']),
    ("allow_anonymous =", ": allow_anonymous: the value is missing", ["expected on or off"]),
    (
        "allow_anonymous = true",
        ": allow_anonymous: wrong value",
        ["expected on or off", 'found "true"', "did you mean on?"],
    ),
    (
        "allow_publish_during_netsplit = majorty",
        ": allow_publish_during_netsplit: wrong value",
        ["expected one of off, majority, on", 'found "majorty"', "did you mean majority?"],
    ),
    (
        "queue_min_in_sync = 2\nqueue_replicas = 1",
        ": queue_min_in_sync: slots get no more copies than queue_replicas = 1",
        ["expected at most queue_replicas", 'found "2"'],
    ),
    (
        "queue_follower_patience = 199",
        ": queue_follower_patience: a node does not notice that shorter commits are slow",
        ["expected 0, or 200 to 1500", 'found "199"'],
    ),
    (
        "listener.http.a.proxy_protocol = on\nlistener.http.a = 127.0.0.1:80",
        ": listener.http.a.proxy_protocol: HTTP listeners do not read PROXY headers",
        ["expected off", 'found "on"'],
    ),
    (
        "eventlog.rotation.size = 65MB",
        ": eventlog.rotation.size: a reader of the event log reads each compressed file as a whole",
        ["expected at most 64MB", 'found "68157440"'],
    ),
    (
        "eventlog.topics = alarms/#,+/state",
        ": eventlog.topics: the value ends at the #",
        ["expected the value in single quotes, so that # begins no comment", 'found "alarms/#,+/state"'],
    ),
    (
        "max_inflight_messages = lots",
        ": max_inflight_messages: wrong value",
        ["expected an integer from 0 to 65535", 'found "lots"'],
    ),
    (
        "max_inflight_messages = 70000",
        ": max_inflight_messages: wrong value",
        ["expected an integer from 0 to 65535", 'found "70000"'],
    ),
    (
        "max_offline_messages = -2",
        ": max_offline_messages: wrong value",
        ["expected an integer, -1 or more", 'found "-2"'],
    ),
    (
        "max_ws_frame_size = unlimited",
        ": max_ws_frame_size: wrong value",
        ["expected an integer, 1 or more, or infinity (bytes)", 'found "unlimited"'],
    ),
    (
        "log.console.level = warn",
        ": log.console.level: wrong value",
        [f"expected one of {LEVELS}", 'found "warn"', "did you mean warning?"],
    ),
    (
        "persistent_client_expiration = 30min",
        ": persistent_client_expiration: wrong value",
        [f"expected {LIFETIME}, or never", 'found "30min"'],
    ),
    (
        "max_last_will_delay = 30",
        ": max_last_will_delay: wrong value",
        [f"expected {LIFETIME}, or client", 'found "30"'],
    ),
    (
        "log.console.rotation.size = 10 MB",
        ": log.console.rotation.size: wrong value",
        ["expected a size in bytes, or with KB, MB or GB, or infinity", 'found "10 MB"'],
    ),
    (
        "leveldb.maximum_memory.percent = 120%",
        ": leveldb.maximum_memory.percent: wrong value",
        ["expected a percentage from 0 to 100", 'found "120%"'],
    ),
    (
        "listener.tcp.default = localhost:1883",
        ": listener.tcp.default: wrong value",
        [f"expected {ADDRESS}, or local:/PATH:0", 'found "localhost:1883"'],
    ),
    (
        "listener.ws.default = 127.0.0.1:99999",
        ": listener.ws.default: wrong value",
        [f"expected {ADDRESS}", 'found "127.0.0.1:99999"'],
    ),
    (
        "listener.ws.default = local:/tmp/x:0",
        ": listener.ws.default: wrong value",
        [f"expected {ADDRESS}", 'found "local:/tmp/x:0"'],
    ),
    (
        "listener.tcp.allowed_protocol_versions = 3,4,6",
        ": listener.tcp.allowed_protocol_versions: wrong value",
        ["expected one or more of 3, 4, 5, 131, 132, separated by commas", 'found "3,4,6"'],
    ),
    (
        "listener.ssl.tls_version = TLSv1.2",
        ": listener.ssl.tls_version: wrong value",
        [f"expected one or more of {TLS}, separated by commas", 'found "TLSv1.2"', "did you mean tlsv1.2?"],
    ),
    (
        "listener.vmqs.tls_version = tlsv1.2,tlsv1.3",
        ": listener.vmqs.tls_version: wrong value",
        [f"expected one of {TLS}", 'found "tlsv1.2,tlsv1.3"'],
    ),
    (
        "listener.tcp.buffer_sizes = 4096,16384",
        ": listener.tcp.buffer_sizes: wrong value",
        [
            "expected three sizes in bytes: send buffer, receive buffer, user-level buffer, separated by commas",
            'found "4096,16384"',
        ],
    ),
    (
        "listener.ssl.pskfile_separator = ::",
        ": listener.ssl.pskfile_separator: wrong value",
        ["expected exactly one character", 'found "::"'],
    ),
    (
        "listener.ws.proxy_xff_trusted_intermediate = proxy.example",
        ": listener.ws.proxy_xff_trusted_intermediate: wrong value",
        ["expected IP addresses, separated by semicolons", 'found "proxy.example"'],
    ),
    (
        "tcp_listen_options = nodelay",
        ": tcp_listen_options: wrong value",
        ["expected an Erlang list, such as [one, {two, 2}]", 'found "nodelay"'],
    ),
    (
        "plugins.python.mine = my_package",
        ": plugins.python.mine: wrong value",
        ["expected MODULE:CLASS, such as my_package.auth:Plugin", 'found "my_package"'],
    ),
    ("nodename = host", ": nodename: wrong value", ["expected NAME@HOST", 'found "host"']),
    (
        "log.console.file = $(platform_data_dirr)/log",
        ": log.console.file: unknown key in $(...)",
        ['found "$(platform_data_dirr)"', "did you mean platform_data_dir?"],
    ),
    (
        "platform_data_dir = $(platform_data_dir)/x",
        ": platform_data_dir: the value refers to itself",
        ['found "$(platform_data_dir)"'],
    ),
    ("trade_consistency = maybe", ": trade_consistency: wrong value", ["expected on or off", 'found "maybe"']),
    (
        "listener.tcp.a = 127.0.0.1:1\nlistener.ws.b = 127.0.0.1:1",
        "2: listener.ws.b: listener.tcp.a has the same address",
        ['found "127.0.0.1:1"'],
    ),
    (
        "listener.tcp.a = 127.0.0.1:1\nlistener.tcp.a.auth_plugins = vmq_passwd, mine",
        "2: listener.tcp.a.auth_plugins: no such plugin is enabled",
        ["expected one of vmq_acl, vmq_passwd", 'found "mine"'],
    ),
    (
        "listener.tcp.a = 127.0.0.1:1\nlistener.tcp.a.authz_plugins = x,x",
        "2: listener.tcp.a.authz_plugins: wrong value",
        ["expected different names of plugins, separated by commas", 'found "x,x"'],
    ),
    (
        "listener.ssl.a = 127.0.0.1:1\nlistener.ssl.keyfile = PEM/key.pem",
        ": listener.ssl.a.certfile: a TLS listener needs a certificate",
        ["expected listener.ssl.a.certfile or listener.ssl.certfile"],
    ),
    (
        "listener.wss.a = 127.0.0.1:1\nlistener.wss.certfile = PEM/cert.pem\nlistener.wss.a.keyfile = PEM/none.pem",
        "3: listener.wss.a.keyfile: the file cannot be read: no such file or directory",
        ['found "PEM/none.pem"'],
    ),
    (
        "listener.vmqs.a = 127.0.0.1:1\nlistener.vmqs.certfile = /dev/null\nlistener.vmqs.a.keyfile = PEM/key.pem",
        "2: listener.vmqs.certfile: this is no regular file",
        ['found "/dev/null"'],
    ),
    (
        "listener.https.a = 127.0.0.1:1\nlistener.https.certfile = PEM/key.pem\nlistener.https.keyfile = PEM/key.pem",
        "2: listener.https.certfile: the file holds no certificate in PEM form",
        ['found "PEM/key.pem"'],
    ),
    (
        "listener.https.a = 127.0.0.1:1\nlistener.https.certfile = PEM/cert.pem\nlistener.https.keyfile = PEM/ca.pem",
        "3: listener.https.keyfile: the file holds no private key in PEM form",
        ['found "PEM/ca.pem"'],
    ),
]


@pytest.mark.parametrize(("text", "said", "details"), CASES, ids=[said.lstrip(":0123456789 ") for _, said, _ in CASES])
def test_the_whole_message(
    text: str, said: str, details: list[str], complaint: Callable[[str], str], pem: Path
) -> None:
    message = complaint(text.replace("PEM", str(pem))).replace(str(pem), "PEM")
    place = "ETC/vernemq.conf:" + (said if said[0].isdigit() else f"1{said}")
    lines = ["1 problem in the configuration:", f"  {place}", *(f"      {detail}" for detail in details)]
    assert message == "\n".join(lines)


def test_there_are_at_least_thirty_kinds() -> None:
    assert len(CASES) >= 30


def test_all_mistakes_of_a_file_come_together_in_its_order(complaint: Callable[[str], str]) -> None:
    text = "nonsense\nallow_anonymous = perhaps\n\nqueue_typ = fifo\nretry_interval = 20\nretry_interval = 0\n"
    assert complaint(text) == "\n".join(
        [
            "4 problems in the configuration:",
            "  ETC/vernemq.conf:1: this is no setting",
            "      expected key = value",
            '      found "nonsense"',
            "  ETC/vernemq.conf:2: allow_anonymous: wrong value",
            "      expected on or off",
            '      found "perhaps"',
            "  ETC/vernemq.conf:4: queue_typ: unknown key",
            "      did you mean queue_type?",
            "  ETC/vernemq.conf:6: retry_interval: wrong value",
            "      expected an integer, 1 or more (seconds)",
            '      found "0"',
        ]
    )

"""Inheritance of listener options: listener, type, top level, default."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strogoff import configs

Conf = Callable[[str], configs.Settings]
OPEN = "listener.tcp.a = 127.0.0.1:1883\nlistener.ws.a = 127.0.0.1:8080\nlistener.http.a = 127.0.0.1:8888\n"


@pytest.mark.parametrize(
    ("lines", "field", "value"),
    [
        ("", "max_connections", 10000),
        ("listener.max_connections = 7", "max_connections", 7),
        ("listener.max_connections = infinity", "max_connections", None),
        ("listener.max_connections = 7\nlistener.tcp.max_connections = 6", "max_connections", 6),
        ("listener.tcp.max_connections = 6\nlistener.tcp.a.max_connections = 5", "max_connections", 5),
        ("listener.tcp.max_connections = 6\nlistener.tcp.a.max_connections = -1", "max_connections", 6),
        ("listener.max_connections = 7\nlistener.tcp.max_connections = -1", "max_connections", 7),
        ("listener.tcp.max_connections = 6\nlistener.tcp.a.max_connections = infinity", "max_connections", None),
        ("listener.ws.max_connections = 6\nlistener.tcp.b.max_connections = 5", "max_connections", 10000),
        ("", "max_connection_lifetime_s", 0),
        ("listener.max_connection_lifetime = 60", "max_connection_lifetime_s", 60),
        (
            "listener.max_connection_lifetime = 60\nlistener.tcp.a.max_connection_lifetime = 0",
            "max_connection_lifetime_s",
            0,
        ),
        ("", "mountpoint", ""),
        ("listener.mountpoint = m/", "mountpoint", "m"),
        ("listener.mountpoint = m\nlistener.tcp.mountpoint = n", "mountpoint", "n"),
        ("listener.tcp.mountpoint = n\nlistener.tcp.a.mountpoint = off", "mountpoint", ""),
        ('listener.tcp.mountpoint = n\nlistener.tcp.a.mountpoint = ""', "mountpoint", ""),
        ("", "allowed_protocol_versions", (3, 4, 5, 131)),
        ("listener.tcp.allowed_protocol_versions = 5", "allowed_protocol_versions", (5,)),
        (
            "listener.tcp.allowed_protocol_versions = 5\nlistener.tcp.a.allowed_protocol_versions = 4",
            "allowed_protocol_versions",
            (4,),
        ),
        ("", "proxy_protocol", False),
        ("listener.tcp.proxy_protocol = on", "proxy_protocol", True),
        ("listener.tcp.proxy_protocol = on\nlistener.tcp.a.proxy_protocol = off", "proxy_protocol", False),
        ("", "proxy_protocol_use_cn_as_username", True),
        ("listener.tcp.proxy_protocol_use_cn_as_username = off", "proxy_protocol_use_cn_as_username", False),
        ("listener.tcp.a.allow_anonymous_override = on", "allow_anonymous_override", True),
        ("", "auth_plugins", None),
        ("listener.tcp.a.auth_plugins = vmq_acl, vmq_passwd", "auth_plugins", ("vmq_acl", "vmq_passwd")),
        ("plugins.python.p = m:C\nlistener.tcp.a.authz_plugins = p", "authz_plugins", ("p",)),
        ("listener.tcp.forward_connection_opts = on", "forward_connection_opts", True),
        ("", "buffer_sizes", None),
        ("listener.tcp.a.buffer_sizes = 1,2,3", "buffer_sizes", (1, 2, 3)),
        ("tcp_listen_options = [{nodelay, false}, inet6]", "tcp_listen_options", (("nodelay", False), ("inet6", True))),
    ],
)
def test_the_nearest_level_counts(conf: Conf, lines: str, field: str, value: object) -> None:
    assert getattr(conf(OPEN + lines).listeners()[0], field) == value


def test_listeners_come_in_the_order_of_the_file_with_their_addresses(conf: Conf) -> None:
    listeners = conf(
        "listener.ws.b = [::1]:8080\nlistener.tcp.a = 0.0.0.0:1883\nlistener.tcp.c = local:/tmp/mqtt.sock:0"
    ).listeners()
    assert [(each.type, each.name, each.host, each.port, each.unix_path) for each in listeners] == [
        ("ws", "b", "::1", 8080, None),
        ("tcp", "a", "0.0.0.0", 1883, None),
        ("tcp", "c", "", 0, "/tmp/mqtt.sock"),
    ]
    assert [each.address for each in listeners] == ["[::1]:8080", "0.0.0.0:1883", "local:/tmp/mqtt.sock:0"]
    assert [each.key for each in listeners] == ["listener.ws.b", "listener.tcp.a", "listener.tcp.c"]


def test_websocket_and_http_options(conf: Conf) -> None:
    _, ws, http = conf(
        OPEN + "listener.ws.proxy_xff_support = on\nlistener.ws.a.proxy_xff_use_cn_as_username = on\n"
        "listener.ws.proxy_xff_trusted_intermediate = 10.0.0.1;10.0.0.2\nlistener.ws.a.proxy_xff_cn_header = x-cn\n"
        "max_ws_frame_size = infinity\nlistener.http.a.max_request_line_length = 100\n"
    ).listeners()
    assert (ws.proxy_xff_support, ws.proxy_xff_use_cn_as_username, ws.proxy_xff_cn_header) == (True, True, "x-cn")
    assert ws.proxy_xff_trusted_intermediate == ("10.0.0.1", "10.0.0.2")
    assert ws.max_ws_frame_size is None
    assert http.max_request_line_length == 100
    assert http.http_modules[0] == "vmq_metrics_http"


def test_an_http_listener_may_have_modules_of_its_own(conf: Conf) -> None:
    listener = conf(OPEN + "listener.http.a.http_modules = [vmq_health_http]").listeners()[2]
    assert listener.http_modules == ("vmq_health_http",)


def test_tls_options_are_inherited_by_type(conf: Conf, pem: Path) -> None:
    one, two = conf(
        f"listener.ssl.certfile = {pem}/cert.pem\nlistener.ssl.keyfile = {pem}/key.pem\n"
        "listener.ssl.tls_version = tlsv1.2,tlsv1.3\nlistener.ssl.tls_handshake_timeout = 1500\n"
        f"listener.ssl.a = 127.0.0.1:1\nlistener.ssl.b = 127.0.0.1:2\nlistener.ssl.b.cafile = {pem}/ca.pem\n"
        "listener.ssl.b.require_certificate = on\nlistener.ssl.b.tls_handshake_timeout = infinity\n"
        "listener.ssl.b.use_identity_as_username = on\nlistener.ssl.b.ciphers = AES128\n"
    ).listeners()
    assert one.uses_tls and one.certfile == two.certfile == f"{pem}/cert.pem"
    assert (one.tls_versions, one.tls_handshake_timeout_s, one.cafile) == (("tlsv1.2", "tlsv1.3"), 1.5, "")
    assert (two.require_certificate, two.use_identity_as_username, two.ciphers) == (True, True, "AES128")
    assert two.tls_handshake_timeout_s is None


def test_the_handshake_timeout_is_five_seconds_by_default(conf: Conf, pem: Path) -> None:
    text = f"listener.wss.a = 127.0.0.1:1\nlistener.wss.certfile={pem}/cert.pem\nlistener.wss.keyfile={pem}/key.pem\n"
    assert conf(text).listeners()[0].tls_handshake_timeout_s == 5.0
    assert conf(text + "listener.wss.a.tls_handshake_timeout = -1").listeners()[0].tls_handshake_timeout_s == 5.0


def test_fields_default_to_the_defaults_of_the_keys(conf: Conf) -> None:
    """A listener made in code equals one from a file that has only an address."""
    loaded = conf("listener.tcp.a = 127.0.0.1:1883").listeners()[0]
    plain = configs.ListenerSettings(
        type="tcp", name="a", host="127.0.0.1", port=1883, tcp_listen_options=loaded.tcp_listen_options
    )
    assert loaded == plain

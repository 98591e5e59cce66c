"""The facts about a connection that plugins get."""

from __future__ import annotations

from strogoff.broker.connection.transport import ConnectionOrigin

from ...harness.listeners import tcp


def test_connection_options_name_the_listener_and_the_certificate() -> None:
    settings = tcp(port=1883)
    options = {"listener_addr": "127.0.0.1", "listener_port": 1883, "listener_type": "tcp"}
    assert ConnectionOrigin("192.0.2.7", 5678, settings).connection_options() == options
    tls = {"version": "TLSv1.3", "cipher": "X", "subject": "client-7", "certificate": b"\0\1"}
    found = ConnectionOrigin("192.0.2.7", 5678, settings, "client-7", tls, "ssl").connection_options()
    assert found == {**options, "tls_version": "TLSv1.3", "tls_cipher": "X", "client_cert": "AAE="}
    unix = tcp(host="", port=0, unix_path="/run/mqtt")
    assert ConnectionOrigin("local", 0, unix, transport="unix").connection_options()["listener_addr"] == "/run/mqtt"

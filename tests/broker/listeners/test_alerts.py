"""A failed TLS handshake sends the client an alert with the reason, on both kinds of event loop."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

import pytest
import trustme

from strogoff.broker.listeners.alerts import AlertingContext, handshake_socket

from ...harness.listeners import Authority, ListenerHarness, both_loops, with_listeners


def end_of(port: int, context: ssl.SSLContext) -> str | None:
    """Returns how a client's connection ends: the name of the alert that it got, or "closed"."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as peer:
                return "closed" if peer.recv(1) == b"" else "data"
        except ssl.SSLError as error:
            return error.reason
        except OSError:
            return "reset"


def client(authority: Authority, version: ssl.TLSVersion, ca: trustme.CA | None = None) -> ssl.SSLContext:
    """A client of one version of TLS; with a certificate if there is a CA for it."""
    context = ssl.create_default_context()
    authority.ca.configure_trust(context)
    context.minimum_version = context.maximum_version = version
    if ca is not None:
        ca.issue_cert("client@example.org", common_name="client-7").configure_cert(context)
    return context


@both_loops
@pytest.mark.parametrize(
    ("offered", "certificate", "alert"),
    [
        ("tlsv1.3", False, "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
        ("tlsv1.3", True, "TLSV1_ALERT_UNKNOWN_CA"),
        ("tlsv1.2", False, "SSLV3_ALERT_HANDSHAKE_FAILURE"),
        ("tlsv1.2", True, "TLSV1_ALERT_UNKNOWN_CA"),
    ],
)
def test_a_refused_certificate_gets_its_alert(
    loop: str, offered: str, certificate: bool, alert: str, tmp_path: Path
) -> None:
    async def test(harness: ListenerHarness) -> None:
        authority = Authority(tmp_path)
        port = await harness.open(authority.settings(require_certificate=True, tls_versions=(offered,)))
        version = ssl.TLSVersion.TLSv1_3 if offered == "tlsv1.3" else ssl.TLSVersion.TLSv1_2
        context = client(authority, version, trustme.CA() if certificate else None)
        assert await asyncio.to_thread(end_of, port, context) == alert
        await harness.until(lambda: harness.traffic.tls_handshake_error == 1)
        assert harness.handlers == []

    with_listeners(test, loop)


@both_loops
def test_a_refused_tls_version_gets_its_alert(loop: str, tmp_path: Path) -> None:
    async def test(harness: ListenerHarness) -> None:
        authority = Authority(tmp_path)
        port = await harness.open(authority.settings(tls_versions=("tlsv1.3",)))
        context = client(authority, ssl.TLSVersion.TLSv1_2)
        assert await asyncio.to_thread(end_of, port, context) == "TLSV1_ALERT_PROTOCOL_VERSION"

    with_listeners(test, loop)


def test_a_closed_socket_causes_no_error() -> None:
    """The failure of the handshake is reported, not that of the socket."""
    gone = socket.socket()
    gone.close()
    token = handshake_socket.set(gone)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    made = AlertingContext(ssl.PROTOCOL_TLS_SERVER).wrap_bio(incoming, outgoing, server_side=True)
    handshake_socket.reset(token)
    with pytest.raises(ssl.SSLWantReadError):
        made.do_handshake()
    incoming.write(b"no TLS at all")
    with pytest.raises(ssl.SSLError):
        made.do_handshake()

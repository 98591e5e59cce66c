"""TLS with real handshakes on both kinds of loop: identity, verification, revocation, bounds, ends."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from pathlib import Path
from typing import cast

import pytest
import trustme
from cryptography import x509
from websockets.asyncio.client import connect

from strogoff.broker.listeners.proxy_protocol import SIGNATURE

from ...harness.listeners import Authority, ListenerHarness, Peer, both_loops, revocations, with_listeners


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def client_context(authority: Authority, name: str = "", ca: trustme.CA | None = None) -> ssl.SSLContext:
    """A client that trusts the authority; with a name it has a certificate."""
    context = ssl.create_default_context()
    authority.ca.configure_trust(context)
    if name:
        (ca or authority.ca).issue_cert("client@example.org", common_name=name).configure_cert(context)
    return context


async def secure(port: int, context: ssl.SSLContext) -> Peer:
    return await Peer.connect(port, ssl=context, server_hostname="localhost")


def tls_failed(harness: ListenerHarness, host: str = "127.0.0.1") -> bool:
    """Whether the last line of the log says that a handshake with this host has failed, as an event of its own."""
    line = harness.lines[-1]
    return "TLS handshake failed: " in line and line.endswith(f" peer={host}") and harness.events[-1] == "tls.fail"


async def refused(port: int, context: ssl.SSLContext) -> None:
    """Check that the handshake fails, or with TLS 1.3, whose client does not wait for the result, that the connection
    ends.
    """
    try:
        peer = await secure(port, context)
        peer.send(b"x")
        assert await peer.rest() == b""
    except OSError:
        return


@both_loops
def test_bytes_through_tls(loop: str, authority: Authority) -> None:
    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(authority.settings())
        peer = await secure(port, client_context(authority))
        peer.send(bytes(1 << 20) + b"quit")
        await peer.expect(bytes(1 << 20) + b"quit")
        assert await peer.rest() == b""
        handler = await harness.handler()
        await harness.until(lambda: handler.reasons)
        assert handler.origin.transport == "ssl"
        assert handler.origin.username is None
        assert handler.origin.tls is not None
        assert handler.origin.tls["version"] == "TLSv1.3"
        assert handler.origin.tls["certificate"] is None
        assert harness.traffic.bytes_received == harness.traffic.bytes_sent == (1 << 20) + 4
        assert harness.traffic.socket_close_timeout == 0

    with_listeners(test, loop)


@both_loops
def test_the_client_may_send_data_with_its_last_handshake_message(loop: str, authority: Authority) -> None:
    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(authority.settings())
        peers = await asyncio.gather(*(secure(port, client_context(authority)) for _ in range(10)))
        for peer in peers:
            peer.send(b"at once")
        for peer in peers:
            await peer.expect(b"at once")
            peer.close()

    with_listeners(test, loop)


@both_loops
def test_the_name_in_a_verified_certificate_is_the_user(loop: str, authority: Authority) -> None:
    async def test(harness: ListenerHarness) -> None:
        settings = authority.settings(
            require_certificate=True, use_identity_as_username=True, forward_connection_opts=True
        )
        peer = await secure(await harness.open(settings), client_context(authority, "client-7"))
        handler = await harness.handler()
        assert handler.origin.username == "client-7"
        assert handler.origin.tls is not None
        assert handler.origin.tls["subject"] == "client-7"
        certificate = x509.load_der_x509_certificate(handler.origin.tls["certificate"])
        assert "client-7" in certificate.subject.rfc4514_string()
        assert "client_cert" in handler.origin.connection_options()
        peer.close()

    with_listeners(test, loop)


@both_loops
@pytest.mark.parametrize("versions", [("tlsv1.2",), ("tlsv1.3",)])
def test_refused_certificates(loop: str, versions: tuple[str, ...], authority: Authority) -> None:
    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(authority.settings(require_certificate=True, tls_versions=versions))
        await refused(port, client_context(authority))
        await harness.until(lambda: "peer did not return a certificate" in harness.lines[-1])
        await refused(port, client_context(authority, "client-7", trustme.CA()))
        await harness.until(lambda: len(harness.lines) == 3)
        assert tls_failed(harness)
        await harness.until(lambda: harness.listeners.active() == 0)
        assert harness.handlers == []
        assert harness.traffic.tls_handshake_error == 2

    with_listeners(test, loop)


@both_loops
def test_a_chain_that_is_too_long(loop: str, authority: Authority) -> None:
    async def test(harness: ListenerHarness) -> None:
        between = authority.ca.create_child_ca()
        port = await harness.open(
            authority.settings(require_certificate=True, depth=0),
            authority.settings(require_certificate=True, depth=1, name="deep"),
        )
        await refused(port, client_context(authority, "client-7", between))
        await harness.until(lambda: "chain of certificates is longer than depth = 0" in harness.lines[-1])
        assert tls_failed(harness)
        assert harness.handlers == []
        peer = await secure(port, client_context(authority, "direct"))
        await harness.handler()
        peer.close()
        peer = await secure(harness.listeners.show()[1].port, client_context(authority, "client-7", between))
        await harness.handler(1)
        peer.close()

    with_listeners(test, loop)


@both_loops
def test_a_revoked_certificate_and_a_list_that_changes(loop: str, authority: Authority) -> None:
    async def test(harness: ListenerHarness) -> None:
        crlfile = authority.folder / "crl.pem"
        crlfile.write_bytes(revocations(authority))
        port = await harness.open(authority.settings(require_certificate=True, crlfile=str(crlfile)))
        context = ssl.create_default_context()
        authority.ca.configure_trust(context)
        issued = authority.ca.issue_cert("client@example.org", common_name="client-7")
        issued.configure_cert(context)
        peer = await secure(port, context)
        await harness.handler()
        peer.close()

        serial = x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes()).serial_number
        listener = harness.listeners.find("ssl.default")
        before = listener._current_context()
        crlfile.write_bytes(revocations(authority, serial))
        await harness.until(lambda: listener._current_context() is not before)
        await refused(port, context)
        await harness.until(lambda: any("certificate revoked" in line for line in harness.lines))
        crlfile.write_bytes(b"broken")
        await harness.until(lambda: any("from before stays in force" in line for line in harness.lines))
        await refused(port, context)
        assert len(harness.handlers) == 1

    with_listeners(test, loop, crl_refresh_interval_s=0.02)


@both_loops
def test_clients_without_tls_and_unfinished_handshakes_are_closed(loop: str, authority: Authority) -> None:
    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(authority.settings(tls_handshake_timeout_s=0.2))
        plain = await Peer.connect(port)
        plain.send(b"\x10\x0c\0\4MQTT\4\2\0\x3c\0\0")
        await plain.rest()
        await harness.until(lambda: tls_failed(harness))
        silent = await Peer.connect(port)
        assert await silent.rest() == b""
        early = await Peer.connect(port)
        early.close()
        await harness.until(lambda: harness.traffic.socket_close == 3)
        assert harness.handlers == []
        assert sum("failed" in line for line in harness.lines) <= 2 + 1

    with_listeners(test, loop)


@both_loops
def test_unfinished_handshakes_count_as_connections(loop: str, authority: Authority) -> None:
    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(authority.settings(max_connections=1, tls_handshake_timeout_s=None))
        silent = await Peer.connect(port)
        await harness.until(lambda: harness.listeners.active() == 1)
        assert await (await Peer.connect(port)).rest() == b""
        assert harness.traffic.connections_refused == 1
        # closing the listeners does not wait for the silent peer
        await harness.listeners.close(5)
        assert await silent.rest() == b""

    with_listeners(test, loop)


@both_loops
def test_a_tls_peer_that_does_not_read_is_aborted(
    loop: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strogoff.broker.listeners.connection.CLOSE_BOUND_S", 0.2)

    async def test(harness: ListenerHarness) -> None:
        peer = await secure(await harness.open(authority.settings()), client_context(authority))
        handler = await harness.handler()
        cast(asyncio.Transport, peer.writer.transport).pause_reading()
        # the first fills the buffer of the socket, later bytes fill the buffer before TLS
        handler.link.write(bytes(8 << 20))
        handler.link.write(bytes(8 << 20))
        assert handler.flags == [False]
        handler.link.close()
        await harness.until(lambda: handler.reasons)
        assert harness.traffic.socket_close_timeout == 1
        peer.writer.transport.abort()

    with_listeners(test, loop)


@both_loops
def test_websocket_over_tls(loop: str, authority: Authority) -> None:
    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(
            authority.settings(type="wss", require_certificate=True, use_identity_as_username=True)
        )
        context = client_context(authority, "client-7")
        url = f"wss://localhost:{port}/mqtt"
        async with connect(url, host="127.0.0.1", subprotocols=["mqtt"], ssl=context, proxy=None) as peer:  # type: ignore[list-item]
            await peer.send(b"hello")
            assert await peer.recv() == b"hello"
            handler = await harness.handler()
            assert (handler.origin.transport, handler.origin.username) == ("wss", "client-7")
        await harness.until(lambda: handler.reasons)

    with_listeners(test, loop)


V1 = b"PROXY TCP4 192.0.2.7 192.0.2.1 5678 1883\r\n"
CN = b"\x22\0\x06from-7"
TLV = b"\x20" + struct.pack("!H", 5 + len(CN)) + b"\x07\0\0\0\0" + CN
BODY = bytes([192, 0, 2, 7, 192, 0, 2, 1]) + struct.pack("!HH", 5678, 8883) + TLV
V2 = SIGNATURE + b"\x21\x11" + struct.pack("!H", len(BODY)) + BODY
LOCAL = SIGNATURE + b"\x20\0\0\0"


async def behind_proxy(port: int, pieces: list[bytes]) -> socket.socket:
    """A connection over which a proxy has sent a header in these pieces; TLS may follow."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for piece in pieces:
        await asyncio.get_running_loop().sock_sendall(sock, piece)
        await asyncio.sleep(0)
    return sock


async def secure_behind_proxy(port: int, pieces: list[bytes], context: ssl.SSLContext) -> Peer:
    sock = await behind_proxy(port, pieces)
    return Peer(*await asyncio.open_connection(sock=sock, ssl=context, server_hostname="localhost"))


@both_loops
@pytest.mark.parametrize(
    ("header", "host", "user"),
    [(V1, "192.0.2.7", None), (V2, "192.0.2.7", "from-7"), (LOCAL, "127.0.0.1", None)],
    ids=["v1", "v2", "local"],
)
def test_a_proxy_header_comes_before_the_handshake(
    loop: str, header: bytes, host: str, user: str | None, authority: Authority
) -> None:
    """In one piece with nothing behind it, and byte by byte; then TLS as without a proxy."""

    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(authority.settings(proxy_protocol=True))
        for number, pieces in enumerate(([header], [bytes([byte]) for byte in header])):
            peer = await secure_behind_proxy(port, pieces, client_context(authority))
            peer.send(b"ping")
            await peer.expect(b"ping")
            origin = (await harness.handler(number)).origin
            assert (origin.peer_host, origin.username, origin.transport) == (host, user, "ssl")
            assert origin.tls is not None and origin.tls["version"] == "TLSv1.3"
            peer.close()

    with_listeners(test, loop)


@both_loops
def test_the_clients_own_certificate_counts_more_than_the_name_in_the_header(loop: str, authority: Authority) -> None:
    async def test(harness: ListenerHarness) -> None:
        demanding = {"require_certificate": True, "use_identity_as_username": True}
        port = await harness.open(authority.settings(proxy_protocol=True, **demanding))
        peer = await secure_behind_proxy(port, [V2], client_context(authority, "device-1"))
        peer.send(b"ping")
        await peer.expect(b"ping")
        origin = (await harness.handler()).origin
        assert (origin.peer_host, origin.username) == ("192.0.2.7", "device-1")
        assert origin.tls is not None and origin.tls["subject"] == "device-1"
        peer.close()

    with_listeners(test, loop)


@both_loops
def test_tls_without_a_proxy_header_is_a_refusal_with_a_reason(loop: str, authority: Authority) -> None:
    """The node also refuses a header that is not complete in time. It takes a peer that closes before the end of its
    header for a health check, and says nothing."""

    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(authority.settings(proxy_protocol=True))
        await refused(port, client_context(authority))
        assert harness.lines[-1] == "info listener.ssl.default: connection refused: no PROXY header peer=127.0.0.1"
        late = await Peer.connect(port)
        late.send(V2[:20])
        assert await late.rest() == b""
        assert harness.lines[-1].endswith("refused: no PROXY header within 0.05 s peer=127.0.0.1")
        for sent in (b"", V2[:14]):
            check = await Peer.connect(port)
            check.send(sent)
            check.close()
        await harness.until(lambda: harness.traffic.socket_close == 4)
        assert harness.traffic.proxy_protocol_error == 2
        assert harness.traffic.tls_handshake_error == 0
        assert harness.handlers == []

    with_listeners(test, loop, opening_timeout_s=0.05)


@both_loops
def test_a_failed_handshake_behind_a_proxy_names_the_client(loop: str, authority: Authority) -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(authority.settings(proxy_protocol=True)))
        peer.send(V2 + b"\x10\x0c\0\4MQTT this is not TLS")
        assert await peer.rest() != b"x"
        await harness.until(lambda: harness.traffic.tls_handshake_error == 1)
        assert tls_failed(harness, "192.0.2.7")

    with_listeners(test, loop)


@both_loops
def test_connections_that_wait_for_their_header_end_with_the_listener(loop: str, authority: Authority) -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(authority.settings(proxy_protocol=True, max_connections=1)))
        await harness.until(lambda: harness.traffic.socket_open == 1)
        assert await (await Peer.connect(harness.listeners.show()[0].port)).rest() == b""
        assert harness.traffic.connections_refused == 1
        await harness.listeners.close(0.5)
        assert await peer.rest() == b""

    with_listeners(test, loop, opening_timeout_s=30.0)

"""Connections over TCP and unix sockets, with real sockets on both kinds of event loop: bytes, PROXY headers, pauses,
ends.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import sys
from pathlib import Path

import pytest

from strogoff.broker.connection.transport import ConnectionOrigin
from strogoff.broker.listeners.connection import StreamConnection
from strogoff.broker.listeners.proxy_protocol import SIGNATURE

from ...harness.listeners import Authority, ListenerHarness, Peer, both_loops, tcp, with_listeners

MEGABYTE = bytes(1 << 20)


@both_loops
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_bytes_go_both_ways_and_are_counted(loop: str, host: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(tcp(host=host)), host)
        peer.send(b"hello")
        await peer.expect(b"hello")
        handler = await harness.handler()
        assert (handler.origin.peer_host, handler.origin.peer_port) == peer.socket.getsockname()[:2]
        assert handler.origin.transport == "tcp"
        assert handler.origin.username is None
        assert (harness.traffic.bytes_received, harness.traffic.bytes_sent) == (5, 5)
        peer.close()
        await harness.until(lambda: handler.reasons)
        assert handler.reasons == ["peer_closed"]

    with_listeners(test, loop)


def test_an_ipv4_peer_of_an_ipv6_socket_has_its_ipv4_address() -> None:
    async def test(harness: ListenerHarness) -> None:
        await Peer.connect(await harness.open(tcp(host="::")))
        assert (await harness.handler()).origin.peer_host == "127.0.0.1"

    with_listeners(test)


def test_answers_are_not_delayed_and_buffers_are_as_configured() -> None:
    async def test(harness: ListenerHarness) -> None:
        settings = tcp(buffer_sizes=(20000, 30000, 1), tcp_listen_options=(("keepalive", True),))
        await Peer.connect(await harness.open(settings))
        link: StreamConnection = (await harness.handler()).link  # type: ignore[assignment]
        accepted = link.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 40000  # Linux doubles what it is given
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 60000

    with_listeners(test)


@both_loops
def test_a_unix_socket(loop: str, tmp_path: Path) -> None:
    async def test(harness: ListenerHarness) -> None:
        await harness.open(tcp(host="", unix_path=str(tmp_path / "s")))
        peer = await Peer.unix(str(tmp_path / "s"))
        peer.send(b"hello quit")
        assert await peer.rest() == b"hello quit"
        origin = (await harness.handler()).origin
        assert (origin.peer_host, origin.peer_port, origin.transport) == ("local", 0, "unix")

    with_listeners(test, loop)


@both_loops
def test_close_sends_the_rest_although_there_is_unread_input(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(tcp()))
        peer.send(MEGABYTE + b"quit")
        await peer.expect(MEGABYTE + b"quit")
        peer.send(MEGABYTE)
        assert await peer.rest() == b""
        handler = await harness.handler()
        await harness.until(lambda: handler.reasons)
        assert handler.received.endswith(b"quit")
        assert harness.traffic.socket_close_timeout == 0

    with_listeners(test, loop)


def test_input_after_close_is_discarded_and_nothing_is_sent() -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(tcp()))
        peer.send(b"quit")
        await peer.expect(b"quit")
        handler = await harness.handler()
        handler.link.write(b"never sent")
        handler.link.pause_reading()
        handler.link.resume_reading()
        peer.send(b"never received")
        assert await peer.rest() == b""
        await harness.until(lambda: handler.reasons)
        assert handler.received == b"quit"
        handler.link.write(b"gone")
        handler.link.close()
        handler.link.abort()
        handler.link.pause_reading()
        handler.link.resume_reading()

    with_listeners(test)


@both_loops
def test_another_port_takes_over(loop: str) -> None:
    """From then on it gets bytes, flags and the end, and the port before gets nothing."""

    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(tcp()))
        peer.send(b"first")
        await peer.expect(b"first")
        handler = await harness.handler()
        other = harness.make_handler(handler.link, handler.origin)
        assert not handler.link.watch_silence(1000)
        handler.link.hand_over(other)
        peer.send(b"second")
        await peer.expect(b"second")
        peer.close()
        await harness.until(lambda: other.reasons)
        assert (handler.received, other.received, handler.reasons) == (b"first", b"second", [])
        other.link.hand_over(handler)
        handler.reasons.append("not told, because the transport is closed")

    with_listeners(test, loop)


@both_loops
def test_a_peer_that_does_not_read_is_aborted_within_the_bound(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strogoff.broker.listeners.connection.CLOSE_BOUND_S", 0.2)

    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(tcp()), limit=1)
        peer.send(b"x")
        handler = await harness.handler()
        handler.link.write(MEGABYTE * 8)
        handler.link.close()
        await harness.until(lambda: handler.reasons)
        assert harness.traffic.socket_close_timeout == 1
        peer.close()

    with_listeners(test, loop)


@both_loops
def test_abort_ends_at_once(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(tcp()), limit=1)
        handler = await harness.handler()
        handler.link.write(MEGABYTE * 8)
        peer.send(b"boom")
        await harness.until(lambda: handler.reasons)
        assert handler.reasons == ["aborted"]
        assert harness.traffic.socket_close_timeout == 0
        peer.close()

    with_listeners(test, loop)


@both_loops
def test_a_full_and_an_emptied_buffer_are_reported(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(tcp()))
        handler = await harness.handler()
        handler.link.write(MEGABYTE * 16)
        assert handler.flags == [False]
        await peer.expect(MEGABYTE * 16)
        await harness.until(lambda: len(handler.flags) == 2)
        assert handler.flags == [False, True]

    with_listeners(test, loop, write_buffer_bytes=100_000)


@both_loops
def test_an_empty_buffer_over_tls_is_not_full_although_the_limit_is_0(loop: str, tmp_path: Path) -> None:
    """The client gets all messages, also if it sends nothing."""
    authority = Authority(tmp_path)

    async def test(harness: ListenerHarness) -> None:
        context = ssl.create_default_context(cafile=authority.cafile)
        port = await harness.open(authority.settings())
        peer = await Peer.connect(port, ssl=context, server_hostname="localhost")
        handler = await harness.handler()
        for number in range(4):
            handler.link.write(b"%d" % number)
            await peer.expect(b"%d" % number)
            assert handler.flags[-1:] != [False]

    with_listeners(test, loop, write_buffer_bytes=0)


@both_loops
def test_nothing_is_received_while_reading_is_paused(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(tcp()))
        handler = await harness.handler()
        handler.link.pause_reading()
        handler.link.pause_reading()
        peer.send(b"later")
        other = await Peer.connect(harness.listeners.show()[0].port)
        other.send(b"now")
        await other.expect(b"now")
        assert handler.received == b""
        handler.link.resume_reading()
        handler.link.resume_reading()
        await peer.expect(b"later")

    with_listeners(test, loop)


@both_loops
def test_a_paused_connection_can_be_closed(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(tcp()))
        handler = await harness.handler()
        handler.link.pause_reading()
        handler.link.close()
        assert await peer.rest() == b""
        await harness.until(lambda: handler.reasons)
        assert harness.traffic.socket_close_timeout == 0

    with_listeners(test, loop)


@both_loops
def test_a_reset_is_an_error_with_its_name(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(tcp()))
        handler = await harness.handler()
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.writer.transport.abort()
        await harness.until(lambda: handler.reasons)
        assert handler.reasons == ["connection_reset"]
        assert harness.traffic.socket_error == 1

    with_listeners(test, loop)


@both_loops
@pytest.mark.parametrize("linger", [True, False])
def test_input_before_a_reset_counts_even_if_a_write_fails_first(loop: str, linger: bool) -> None:
    """A peer that closes with an unread answer resets the connection: the bytes that it sent before are not lost."""

    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(tcp())
        with socket.create_connection(("127.0.0.1", port)) as peer:
            handler = await harness.handler()
            handler.link.write(b"unread")
            assert await asyncio.to_thread(peer.recv, 1, socket.MSG_PEEK) == b"u"
            # no turn of the loop from here on
            peer.sendall(b"last words")
            if linger:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
            handler.link.write(b"an answer")
            handler.link.write(b"another")
        await harness.until(lambda: handler.reasons)
        assert handler.received == b"last words"

    with_listeners(test, loop)


@both_loops
def test_a_peer_that_shuts_down_still_gets_its_answer(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(tcp()))
        peer.send(b"last words")
        peer.writer.write_eof()
        assert await peer.rest() == b"last wordstoo late"

    with_listeners(test, loop)


@both_loops
def test_an_internal_error_closes_one_connection(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(tcp())
        peer = await Peer.connect(port)
        other = await Peer.connect(port)
        peer.send(b"raise")
        handler = await harness.handler()
        await harness.until(lambda: harness.handlers[0].reasons or harness.handlers[1].reasons)
        other.send(b"still here")
        await other.expect(b"still here")
        assert handler.reasons == ["socket_error"]

    with_listeners(test, loop, complaint="ValueError('raise')")


V1 = b"PROXY TCP4 192.0.2.7 192.0.2.1 5678 1883\r\n"
CN = b"\x22\0\x08client-7"
SSL = b"\x20" + struct.pack("!H", 5 + len(CN)) + b"\x07\0\0\0\0" + CN
V2_BODY = bytes([192, 0, 2, 7, 192, 0, 2, 1]) + struct.pack("!HH", 5678, 1883) + SSL
V2 = SIGNATURE + b"\x21\x11" + struct.pack("!H", len(V2_BODY)) + V2_BODY


@both_loops
@pytest.mark.parametrize("header", [V1, V2])
def test_a_proxy_header_byte_by_byte_and_mqtt_right_behind_it(loop: str, header: bytes) -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(tcp(proxy_protocol=True)))
        for byte in header[:-1]:
            peer.send(bytes([byte]))
            await peer.writer.drain()
            await asyncio.sleep(0)
        assert harness.handlers == []
        peer.send(header[-1:] + b"mqtt")
        await peer.expect(b"mqtt")
        origin = (await harness.handler()).origin
        assert (origin.peer_host, origin.peer_port) == ("192.0.2.7", 5678)
        assert origin.username == ("client-7" if header is V2 else None)

    with_listeners(test, loop)


def test_the_name_in_a_proxy_header_is_taken_only_if_configured() -> None:
    async def test(harness: ListenerHarness) -> None:
        settings = tcp(proxy_protocol=True, proxy_protocol_use_cn_as_username=False)
        (await Peer.connect(await harness.open(settings))).send(V2)
        origin = (await harness.handler()).origin
        assert origin.username is None
        assert origin.tls == {"version": None, "cipher": None, "subject": "client-7", "certificate": None}

    with_listeners(test)


def test_a_proxy_that_sends_a_local_header_is_the_peer() -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(tcp(proxy_protocol=True)))
        peer.send(SIGNATURE + b"\x20\0\0\0ping")
        await peer.expect(b"ping")
        assert (await harness.handler()).origin.peer_host == "127.0.0.1"

    with_listeners(test)


@both_loops
def test_no_proxy_header_is_a_refusal_with_a_reason(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(tcp(proxy_protocol=True)))
        peer.send(b"\x10\x0c\0\4MQTT")
        assert await peer.rest() == b""
        assert harness.handlers == []
        assert harness.lines[-1] == "info listener.tcp.default: connection refused: no PROXY header peer=127.0.0.1"
        assert harness.events[-1] == "proxy.refuse"
        assert harness.traffic.proxy_protocol_error == 1

    with_listeners(test, loop)


def test_a_proxy_header_that_does_not_come_in_time_is_a_refusal() -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(tcp(proxy_protocol=True)))
        assert await peer.rest() == b""
        assert harness.lines[-1].endswith("refused: no PROXY header within 0.05 s peer=127.0.0.1")

    with_listeners(test, opening_timeout_s=0.05)


@both_loops
@pytest.mark.parametrize("sent", [b"", b"PROX"])
def test_a_health_check_that_closes_early_is_ignored(loop: str, sent: bytes) -> None:
    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(tcp(proxy_protocol=True))
        before = list(harness.lines)
        for reset in (False, True):
            peer = await Peer.connect(port)
            peer.send(sent)
            if reset:
                peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                peer.writer.transport.abort()
            peer.close()
        await harness.until(lambda: harness.traffic.socket_close == 2)
        assert harness.lines == before
        assert (harness.traffic.proxy_protocol_error, harness.traffic.socket_error) == (0, 0)

    with_listeners(test, loop)


def test_an_idle_connection_costs_little() -> None:
    async def test(harness: ListenerHarness) -> None:
        await Peer.connect(await harness.open(tcp()))
        handler = await harness.handler()
        connection: StreamConnection = handler.link  # type: ignore[assignment]
        assert not hasattr(connection, "__dict__")
        origin: ConnectionOrigin = handler.origin
        size = sum(map(sys.getsizeof, (connection, connection.receive, origin, origin.peer_host, origin.peer_port)))
        assert size < 600
        assert connection.opening is None and connection.origin is None and connection.timer is None

    with_listeners(test)

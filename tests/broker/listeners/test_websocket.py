"""MQTT over WebSocket with clients of two libraries and with raw bytes: upgrade, frames, ends."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, NegotiationError
from websockets.frames import Frame, Opcode

from strogoff.broker.listeners.frame_splitter import PIECE_BYTES
from strogoff.broker.listeners.proxy_protocol import SIGNATURE
from strogoff.broker.listeners.websocket import FRAMES_PER_TURN, STEP_BYTES
from strogoff.configs import ListenerSettings

from ...harness.listeners import Authority, EchoConnection, ListenerHarness, Peer, both_loops, tcp, with_listeners


def quit_and_close(peer: Peer) -> None:
    """Make the handler close, and answer at once, so that neither end waits for the other."""
    peer.send(Frame(Opcode.BINARY, b"quit").serialize(mask=True) + b"\x88\x82\0\0\0\0\x03\xe8")
    peer.writer.write_eof()


def ws(**fields: Any) -> ListenerSettings:
    return tcp(**{"type": "ws", **fields})


def client(port: int, path: str = "/mqtt", protocols: tuple[str, ...] = ("mqtt",), **options: Any) -> Any:
    names = [websockets.Subprotocol(name) for name in protocols]
    return connect(f"ws://127.0.0.1:{port}{path}", subprotocols=names or None, proxy=None, **options)


@both_loops
def test_packets_and_frames_need_not_begin_together(loop: str) -> None:
    """A data frame may hold several packets or part of one [MQTT-6.0.0-2] [MQTT5-6.0.0-2]."""

    async def test(harness: ListenerHarness) -> None:
        async with client(await harness.open(ws())) as peer:
            assert peer.subprotocol == "mqtt"
            for piece in (b"\x10", b"\x0c\0\4MQ", b"TT and more"):
                await peer.send(piece)
            await peer.send([b"frag", b"ment", b"ed"])
            handler = await harness.handler()
            await harness.until(lambda: handler.received == b"\x10\x0c\0\4MQTT and morefragmented")
            assert handler.origin.transport == "ws"
            handler.link.write(b"all at once")
            got = b""
            while not got.endswith(b"all at once"):
                message = await peer.recv()
                # [MQTT-6.0.0-1] [MQTT5-6.0.0-1]: binary frames only
                assert isinstance(message, bytes)
                got += message

    with_listeners(test, loop)


@both_loops
def test_an_aiohttp_client_works_as_well(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        url = f"http://127.0.0.1:{await harness.open(ws())}/mqtt?token=1"
        async with aiohttp.ClientSession() as session, session.ws_connect(url, protocols=("x", "mqttv3.1")) as peer:
            assert peer.protocol == "mqttv3.1"
            await peer.send_bytes(b"x" * 100_000)
            assert await peer.receive_bytes() + await peer.receive_bytes() == b"x" * 100_000
            await peer.send_bytes(b"quit")
            assert await peer.receive_bytes() == b"quit"
            assert (await peer.receive()).type is aiohttp.WSMsgType.CLOSE
            assert peer.close_code == 1000

    with_listeners(test, loop)


def test_mqtt_is_preferred_to_its_older_name() -> None:
    """The server chooses "mqtt" [MQTT-6.0.0-4] [MQTT5-6.0.0-4]."""

    async def test(harness: ListenerHarness) -> None:
        async with client(await harness.open(ws()), protocols=("mqttv3.1", "mqtt")) as peer:
            assert peer.subprotocol == "mqtt"

    with_listeners(test)


async def closed(peer: ClientConnection) -> tuple[int, str]:
    """Returns how the other side closed."""
    with pytest.raises(ConnectionClosed) as error:  # noqa: PT012 - messages may come before the end
        while True:
            await peer.recv()
    assert error.value.rcvd is not None
    return error.value.rcvd.code, error.value.rcvd.reason


@both_loops
def test_a_text_frame_ends_the_connection(loop: str) -> None:
    """[MQTT-6.0.0-1] [MQTT5-6.0.0-1]"""

    async def test(harness: ListenerHarness) -> None:
        async with client(await harness.open(ws())) as peer:
            await peer.send(b"binary")
            await peer.send("text")
            assert await closed(peer) == (1003, "MQTT needs binary frames")
            handler = await harness.handler()
            assert (handler.received, handler.reasons) == (b"binary", ["websocket_text_frame"])
            assert harness.traffic.websocket_error == 1

    with_listeners(test, loop)


def test_a_frame_above_the_limit_ends_the_connection() -> None:
    async def test(harness: ListenerHarness) -> None:
        async with client(await harness.open(ws(max_ws_frame_size=1000))) as peer:
            await peer.send(b"x" * 1000)
            await peer.recv()
            await peer.send(b"x" * 1001)
            assert (await closed(peer))[0] == 1009
            assert (await harness.handler()).reasons == ["websocket_frame_too_large"]

    with_listeners(test)


def test_what_is_in_a_large_frame_arrives_before_its_end() -> None:
    """So nobody keeps the whole frame."""

    async def test(harness: ListenerHarness) -> None:
        async with client(await harness.open(ws()), max_size=None) as peer:
            (await harness.handler()).link.accepted()
            frame = Frame(Opcode.BINARY, bytes(1 << 20)).serialize(mask=True)
            peer.transport.write(frame[: 2 * PIECE_BYTES + 14])
            assert [await peer.recv(), await peer.recv()] == [bytes(PIECE_BYTES)] * 2

    with_listeners(test)


@both_loops
@pytest.mark.parametrize("accepted", [False, True])
def test_a_large_frame_is_only_for_clients_that_are_accepted(loop: str, accepted: bool) -> None:
    """Before that, a frame larger than a CONNECT is refused by its header, and no byte of it is kept."""

    async def test(harness: ListenerHarness) -> None:
        async with client(await harness.open(ws()), max_size=None) as peer:
            handler = await harness.handler()
            await peer.send(bytes(1000))
            assert await peer.recv() == bytes(1000)
            if accepted:
                handler.link.accepted()
            try:
                await peer.send(bytes(1001))
                assert await peer.recv() == bytes(1001)
                assert accepted
            except ConnectionClosed:
                assert not accepted
                assert peer.close_code == 1009

    with_listeners(test, loop, opening_frame_bytes=1000)


def test_a_ping_is_answered() -> None:
    async def test(harness: ListenerHarness) -> None:
        async with client(await harness.open(ws())) as peer, asyncio.timeout(5):
            await (await peer.ping(b"are you there"))

    with_listeners(test)


def ping(payload: bytes) -> bytes:
    return bytes(Frame(Opcode.PING, payload).serialize(mask=True))


@both_loops
def test_pings_of_a_peer_that_does_not_read_are_bounded(loop: str) -> None:
    """While the buffer is full only the last ping is remembered, and answered when there is room again.

    RFC 6455 section 5.5.3 allows it.
    """

    async def test(harness: ListenerHarness) -> None:
        peer = await upgraded(await harness.open(ws()))
        handler = await harness.handler()
        link: Any = handler.link
        last = b"the last one"
        flood = ping(bytes(120)) * 1000
        most = 0
        while not link.pong and most < 1 << 24:
            peer.send(flood)
            await peer.writer.drain()
            await asyncio.sleep(0)
            most += len(flood)
        for _ in range(40):
            peer.send(flood)
            await peer.writer.drain()
        peer.send(ping(last))
        await harness.until(lambda: last in link.pong)
        assert link.transport.get_write_buffer_size() < 150_000
        read = b""
        async with asyncio.timeout(10):
            while not read.endswith(last):
                read += await peer.reader.read(1 << 20)
        peer.send(b"\x82\x84\0\0\0\0quit")
        await peer.expect(b"\x82\x04quit")
        peer.send(b"\x88\x82\0\0\0\0\x03\xe8")
        assert await peer.rest() == b"\x88\x02\x03\xe8"

    with_listeners(test, loop, write_buffer_bytes=100_000)


@both_loops
def test_many_frames_at_once_do_not_stop_the_others(loop: str) -> None:
    """A peer's frames are read in turns: another connection is answered between them, and no frame is lost."""

    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(ws(), tcp(name="plain"))
        plain = harness.listeners.show()[1].port
        peer, other = await upgraded(port), await Peer.connect(plain)
        first, second = await harness.handler(0), await harness.handler(1)
        flooded, polite = (first, second) if first.origin.transport == "ws" else (second, first)
        link: Any = flooded.link
        count = 20 * FRAMES_PER_TURN
        frames = Frame(Opcode.BINARY, b"x").serialize(mask=True) * count
        other.send(b"hello")
        link.data_received(frames)
        assert len(flooded.received) < FRAMES_PER_TURN + STEP_BYTES
        await harness.until(lambda: polite.received)
        assert len(flooded.received) < count / 2
        quit_and_close(peer)
        await harness.until(lambda: flooded.reasons)
        assert flooded.received == b"x" * count + b"quit"
        peer.close()
        other.close()

    with_listeners(test, loop)


async def behind(harness: ListenerHarness) -> tuple[Peer, EchoConnection, int]:
    """Send more frames than one turn reads. Returns the peer, its handler, and the number of frames."""
    peer = await upgraded(await harness.open(ws()))
    handler = await harness.handler()
    link: Any = handler.link
    count = 20 * FRAMES_PER_TURN
    link.data_received(Frame(Opcode.BINARY, b"x").serialize(mask=True) * count)
    return peer, handler, count


@both_loops
def test_frames_wait_while_the_handler_has_paused_reading(loop: str) -> None:
    """Pausing holds back frames that have arrived already, and resuming reads them first."""

    async def test(harness: ListenerHarness) -> None:
        peer, handler, count = await behind(harness)
        handler.link.pause_reading()
        seen = len(handler.received)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(handler.received) == seen < count
        handler.link.resume_reading()
        quit_and_close(peer)
        await harness.until(lambda: handler.reasons)
        assert handler.received == b"x" * count + b"quit"
        peer.close()

    with_listeners(test, loop)


@both_loops
def test_a_peer_that_closes_tls_behind_many_frames(loop: str, tmp_path: Path) -> None:
    """TLS reports the end of the stream although the socket is not read: the handler gets all frames before it."""

    async def test(harness: ListenerHarness) -> None:
        authority = Authority(tmp_path)
        port = await harness.open(authority.settings(type="wss"))
        context = ssl.create_default_context(cafile=authority.cafile)
        peer = await upgraded(port, ssl=context)
        handler = await harness.handler()
        count = 20 * FRAMES_PER_TURN
        peer.send(Frame(Opcode.BINARY, b"x").serialize(mask=True) * count)
        peer.close()
        await harness.until(lambda: handler.reasons)
        assert (len(handler.received), handler.reasons) == (count, ["peer_closed"])

    with_listeners(test, loop)


@both_loops
def test_a_peer_that_resets_behind_many_frames(loop: str) -> None:
    """A write finds the connection reset while frames wait: the handler gets them before the end."""

    async def test(harness: ListenerHarness) -> None:
        peer, handler, count = await behind(harness)
        link: Any = handler.link
        transport = link.transport
        link.connection_lost(ConnectionResetError())
        assert (len(handler.received), handler.reasons) == (count, ["connection_reset"])
        transport.abort()
        peer.close()

    with_listeners(test, loop)


@both_loops
def test_another_port_takes_over(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await upgraded(await harness.open(ws()))
        handler = await harness.handler()
        other = harness.make_handler(handler.link, handler.origin)
        handler.link.hand_over(other)
        quit_and_close(peer)
        await harness.until(lambda: other.reasons)
        assert (handler.received, other.received) == (b"", b"quit")
        handler.reasons.append("not told")
        peer.close()

    with_listeners(test, loop)


@both_loops
def test_the_handler_closes_while_frames_wait(loop: str) -> None:
    """The peer's close frame behind them still ends the connection in order."""

    async def test(harness: ListenerHarness) -> None:
        peer = await upgraded(await harness.open(ws()))
        handler = await harness.handler()
        link: Any = handler.link
        link.data_received(Frame(Opcode.BINARY, b"x").serialize(mask=True) * 20 * FRAMES_PER_TURN)
        handler.link.close()
        peer.send(b"\x88\x82\0\0\0\0\x03\xe8")
        assert (await peer.rest())[-4:] == b"\x88\x02\x03\xe8"
        await harness.until(lambda: handler.reasons)
        assert harness.traffic.socket_close_timeout == 0

    with_listeners(test, loop)


@both_loops
def test_the_peer_closes_properly(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        async with client(await harness.open(ws())) as peer:
            handler = await harness.handler()
        assert peer.close_code == 1000
        await harness.until(lambda: handler.reasons)
        assert handler.reasons == ["peer_closed"]
        assert harness.traffic.websocket_error == 0

    with_listeners(test, loop)


@both_loops
def test_the_handler_closes_after_its_output_was_sent(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        async with client(await harness.open(ws()), max_size=None) as peer:
            handler = await harness.handler()
            handler.link.pause_reading()
            handler.link.write(bytes(1 << 20))
            handler.link.close()
            handler.link.write(b"too late")
            assert len(await peer.recv()) == 1 << 20
            assert (await closed(peer))[0] == 1000

    with_listeners(test, loop)


@both_loops
def test_a_disconnect_and_the_close_frame_in_one_piece(loop: str) -> None:
    """The packet makes the handler close while the answer to the peer's close frame is still to be written."""

    async def test(harness: ListenerHarness) -> None:
        peer = await upgraded(await harness.open(ws()))
        quit_and_close(peer)
        assert (await peer.rest())[-4:] == b"\x88\x02\x03\xe8"
        handler = await harness.handler()
        await harness.until(lambda: handler.reasons)

    with_listeners(test, loop)


def test_a_stopping_node_closes_with_going_away() -> None:
    async def test(harness: ListenerHarness) -> None:
        async with client(await harness.open(ws())) as peer:
            await harness.handler()
            await harness.listeners.close(5)
            assert (await closed(peer))[0] == 1001

    with_listeners(test)


def test_a_peer_that_does_not_answer_the_close_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strogoff.broker.listeners.websocket.CLOSE_BOUND_S", 0.1)

    async def test(harness: ListenerHarness) -> None:
        peer = await upgraded(await harness.open(ws()))
        handler = await harness.handler()
        handler.link.close()
        await harness.until(lambda: handler.reasons)
        assert harness.traffic.socket_close_timeout == 1
        assert (await peer.rest())[-4:] == b"\x88\x02\x03\xe8"

    with_listeners(test)


UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)


async def upgraded(port: int, **options: Any) -> Peer:
    peer = await Peer.connect(port, **options)
    peer.send(UPGRADE)
    assert b" 101 " in await peer.reader.readuntil(b"\r\n\r\n")
    return peer


@both_loops
def test_upgrade_and_first_frames_in_one_piece_and_byte_by_byte(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(ws())
        data = UPGRADE + Frame(Opcode.BINARY, b"hello").serialize(mask=True)
        for step in (1, 1000):
            peer = await Peer.connect(port)
            for start in range(0, len(data), step):
                peer.send(data[start : start + step])
                await peer.writer.drain()
            await peer.reader.readuntil(b"\r\n\r\n")
            await peer.expect(b"\x82\x05hello")
        peer.send(b"\x82\x05not masked")
        answer = await peer.rest()
        assert (answer[:1], answer[2:4]) == (b"\x88", b"\x03\xea")  # close, 1002
        handler = await harness.handler(1)
        assert handler.reasons == ["websocket_protocol_error"]

    with_listeners(test, loop)


def test_a_lost_peer_without_a_close_frame() -> None:
    async def test(harness: ListenerHarness) -> None:
        (await upgraded(await harness.open(ws()))).close()
        handler = await harness.handler()
        await harness.until(lambda: handler.reasons)
        assert handler.reasons == ["peer_closed"]

    with_listeners(test)


@pytest.mark.parametrize(
    ("request_", "status", "text"),
    [
        (b"GET /elsewhere HTTP/1.1\r\n\r\n", 404, b"MQTT over WebSocket is at /mqtt"),
        (b"POST /mqtt HTTP/1.1\r\n\r\n", 405, b"Allow: GET"),
        (b"GET /mqtt HTTP/1.0\r\n\r\n", 505, b"HTTP/1.1"),
        (b"GET /mqtt HTTP/1.1\r\nHost: x\r\n\r\n", 426, b"WebSocket"),
        (b"GET /mqtt HTTP/1.1\r\nContent-Length: 1\r\n\r\n", 400, b"unsupported request body"),
        (UPGRADE.replace(b"mqtt\r\n\r\n", b"chat\r\n\r\n"), 400, b"expected one of mqtt, mqttv3.1"),
        (UPGRADE.replace(b"Protocol: mqtt", b"Other: mqtt"), 400, b"missing subprotocol"),
        (b"GET /" + b"x" * 200 + b" HTTP/1.1\r\n\r\n", 414, b"longer than 100"),
        (b"GET /mqtt HTTP/1.1\r\nX: " + b"x" * 51 + b"\r\n\r\n", 431, b"value of X"),
        (b"\x10\x0c\0\4MQTT\r\n\r\n", 400, b"not an HTTP request"),
    ],
)
def test_other_requests_get_an_http_error(request_: bytes, status: int, text: bytes) -> None:
    """A client that does not offer "mqtt" is refused [MQTT-6.0.0-3] [MQTT5-6.0.0-3], and so is a request other than
    WebSocket.
    """

    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(ws(max_request_line_length=100, max_header_value_length=50)))
        peer.send(request_)
        answer = await peer.rest()
        assert answer.startswith(b"HTTP/1.1 %d " % status), answer
        assert text in answer
        assert harness.handlers == []
        assert harness.traffic.websocket_error == 1
        assert ("WebSocket refused: " in harness.lines[-1], harness.events[-1]) == (True, "ws.refuse")

    with_listeners(test)


def test_libraries_see_the_refusals() -> None:
    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(ws())
        for path, protocols in (("/", ("mqtt",)), ("/mqtt", ("chat",)), ("/mqtt", ())):
            with pytest.raises((InvalidStatus, NegotiationError)):
                async with client(port, path, protocols):
                    pass

    with_listeners(test)


def test_an_upgrade_that_does_not_come_in_time() -> None:
    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(ws())
        assert await (await Peer.connect(port)).rest() == b""
        peer = await Peer.connect(port)
        peer.send(UPGRADE[:50])
        assert (await peer.rest()).startswith(b"HTTP/1.1 408 ")

    with_listeners(test, opening_timeout_s=0.05)


XFF = {"X-Forwarded-For": "203.0.113.9, 192.0.2.5, 127.0.0.2", "X-SSL-Client-CN": "client-7"}


@pytest.mark.parametrize(
    ("trusted", "host", "name"),
    [
        (("127.0.0.1", "127.0.0.2"), "192.0.2.5", "client-7"),
        (("10.0.0.1",), "127.0.0.1", None),
        ((), "127.0.0.1", None),
    ],
)
def test_headers_of_proxies_count_if_the_peer_is_trusted(trusted: tuple[str, ...], host: str, name: str | None) -> None:
    async def test(harness: ListenerHarness) -> None:
        settings = ws(proxy_xff_support=True, proxy_xff_trusted_intermediate=trusted, proxy_xff_use_cn_as_username=True)
        async with client(await harness.open(settings), additional_headers=XFF):
            origin = (await harness.handler()).origin
            assert (origin.peer_host, origin.username) == (host, name)
        assert any("no effect without proxy_xff_trusted" in line for line in harness.lines) == (not trusted)

    with_listeners(test)


def test_a_proxy_header_before_the_upgrade() -> None:
    async def test(harness: ListenerHarness) -> None:
        peer = await Peer.connect(await harness.open(ws(proxy_protocol=True)))
        body = bytes([192, 0, 2, 7, 192, 0, 2, 1, 22, 46, 0, 80])
        peer.send(SIGNATURE + b"\x21\x11\0\x0c" + body + UPGRADE)
        assert b" 101 " in await peer.reader.readuntil(b"\r\n\r\n")
        origin = (await harness.handler()).origin
        assert (origin.peer_host, origin.peer_port, origin.transport) == ("192.0.2.7", 5678, "ws")
        peer.close()

    with_listeners(test)

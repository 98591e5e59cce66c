"""Data connections: which peers get one, the treatment of strangers, and wires without one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from strogoff.cluster.transport import data_listener
from strogoff.cluster.transport.data_listener import DataListener, Offer, decode_offer, dial_data, ticket_of
from strogoff.cluster.transport.data_stream import PROOF_BYTES, DataStream
from strogoff.cluster.transport.grpc_wire import GrpcTransport
from strogoff.cluster.transport.handshake import STREAM, Answering, Asking, NotProven, Session, key_of
from strogoff.cluster.transport.wire import MAX_FRAME, TransportError

from .authority import Authority, Node
from .wire_server import Recorder, WireServer

HOST = "127.0.0.1"


def sessions() -> tuple[Session, Session]:
    """Returns the sessions of dialer and acceptor after a handshake."""
    key = key_of("secret")
    asking = Asking(key, STREAM, bytes(16))
    answering = Answering(key, lambda: b"n" * 16)
    answer, acceptors = answering.admit(STREAM, asking.proof(answering.challenge()))
    return asking.check(answer), acceptors


class Nonces:
    """Unique numbers."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> bytes:
        self.count += 1
        return self.count.to_bytes(16, "big")


@asynccontextmanager
async def listening(**more: Any) -> AsyncIterator[tuple[DataListener, list[str]]]:
    """Returns an open listener and its log lines."""
    logged: list[str] = []
    listener = DataListener(more.get("tls"), Nonces(), lambda level, text: logged.append(text))
    await listener.open(HOST, 0)
    try:
        yield listener, logged
    finally:
        await listener.close()


async def knock(port: int, data: bytes) -> bytes:
    """Send these bytes as a stranger; returns all received bytes until the end."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(data)
    try:
        async with asyncio.timeout(5):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def run(body: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(body(), 20))


def test_a_ticket_with_its_code_opens_the_connection() -> None:
    async def body() -> None:
        async with listening() as (listener, logged):
            mine, theirs = sessions()
            attached: list[DataStream] = []
            offer = listener.offer(theirs, attached.append)
            stream = await dial_data(HOST, offer, mine, None, 5)
            assert len(attached) == 1 and attached[0].limit == stream.limit == MAX_FRAME and logged == []
            stream.abort()
            attached[0].abort()

    run(body)


def test_a_ticket_is_good_for_one_connection() -> None:
    async def body() -> None:
        async with listening() as (listener, logged):
            mine, theirs = sessions()
            attached: list[DataStream] = []
            offer = listener.offer(theirs, attached.append)
            first = await dial_data(HOST, offer, mine, None, 5)
            with pytest.raises(TransportError, match=r"cannot connect|lost"):
                await dial_data(HOST, offer, mine, None, 5)
            assert len(attached) == 1
            assert "its ticket is not one of this node" in logged[0]
            first.abort()
            attached[0].abort()

    run(body)


@pytest.mark.parametrize("what", ["a ticket that was seen", "a guess", "a code of its own", "a large frame", "garbage"])
def test_a_stranger_gets_a_closed_connection(what: str) -> None:
    """It gets no byte, whatever ticket it shows; the log names it."""

    async def body() -> None:
        async with listening() as (listener, logged):
            mine, theirs = sessions()
            attached: list[DataStream] = []
            offer = listener.offer(theirs, attached.append)
            shown = {
                "a ticket that was seen": framed(bytes(Session.CODE_BYTES) + offer.ticket),
                "a guess": framed(mine.seal(b"x" * 16)),
                "a code of its own": framed(Session(b"guess", b"dialer", b"acceptor").seal(offer.ticket)),
                "a large frame": framed(bytes(PROOF_BYTES + 1)),
                "garbage": b"GET / HTTP/1.1\r\n\r\n",
            }[what]
            assert await knock(listener.port, shown) == b""
            assert attached == [] and len(logged) == 1 and f"connection of another node from {HOST}" in logged[0]

    run(body)


def test_a_silent_stranger_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_listener, "HANDSHAKE_S", 0.05)

    async def body() -> None:
        async with listening() as (listener, logged):
            assert await knock(listener.port, b"") == b""
            assert "silent for 0.05 s" in logged[0]

    run(body)


def test_the_number_of_stranger_connections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_listener, "MAX_UNPROVEN", 3)

    async def body() -> None:
        async with listening() as (listener, _):
            crowd = [await asyncio.open_connection(HOST, listener.port) for _ in range(3)]
            assert await knock(listener.port, b"") == b""
            assert [reader.at_eof() for reader, _ in crowd] == [False] * 3
            for _, writer in crowd:
                writer.close()

    run(body)


def test_an_acceptor_without_the_code_is_not_believed() -> None:
    """Another process listens at the port by now."""

    async def body() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(framed(bytes(Session.CODE_BYTES) + b"taken"))

        server = await asyncio.start_server(answer, HOST, 0)
        mine, _ = sessions()
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TransportError, match="lacks the authentication code"):
            await dial_data(HOST, Offer(port, b"t" * 16), mine, None, 5)
        server.close()

    run(body)


def test_an_offer_that_cannot_be_read() -> None:
    with pytest.raises(NotProven, match="its offer of 3 bytes cannot be read"):
        decode_offer(b"\xc1\xc1\xc1")


def test_a_ticket_follows_the_code() -> None:
    mine, _ = sessions()
    assert ticket_of(mine.seal(b"ticket")) == b"ticket"
    assert ticket_of(b"short") == b""


def test_a_port_in_use_is_an_error_that_names_the_key() -> None:
    async def body() -> None:
        async with listening() as (listener, _):
            second = DataListener(None, Nonces(), lambda level, text: None)
            with pytest.raises(TransportError, match=rf"cannot listen on {HOST}:{listener.port} .*cluster.data_port"):
                await second.open(HOST, listener.port)

    run(body)


def test_tls(tmp_path: Path) -> None:
    """Both ends show certificates of nodes; a certificate that is not listed is refused, whatever
    authority signed it.
    """

    async def body() -> None:
        authority = Authority()
        node = Node(tmp_path / "node", authority, "n1.example")
        other = Node(tmp_path / "other", authority, "camera.example")
        async with listening(tls=node.tls(names=("n1.example",))) as (listener, logged):
            mine, theirs = sessions()
            attached: list[DataStream] = []
            stream = await dial_data(HOST, listener.offer(theirs, attached.append), mine, node.tls(), 5)
            assert len(attached) == 1 and attached[0].certificate == node.der
            with pytest.raises(TransportError):
                await dial_data(HOST, listener.offer(theirs, attached.append), mine, other.tls(), 5)
            assert "is not one of cluster.peer_names" in logged[0]
            names = ("n2.example",)
            with pytest.raises(TransportError, match="is not accepted as a node"):
                await dial_data(HOST, listener.offer(theirs, attached.append), mine, node.tls(names=names), 5)
            assert await knock(listener.port, framed(bytes(48))) == b""
            assert len(attached) == 1
            stream.abort()
            attached[0].abort()

    run(body)


@pytest.mark.parametrize("loop_run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_each_frame_over_tls_is_drained_although_nothing_comes_back(
    tmp_path: Path, loop_run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    """An owner sends the next frame when the one before is drained."""

    async def body() -> None:
        node = Node(tmp_path / "node", Authority(), "n1.example")
        async with listening(tls=node.tls()) as (listener, _):
            mine, theirs = sessions()
            attached: list[DataStream] = []
            received: list[bytes] = []
            dialled = await dial_data(HOST, listener.offer(theirs, attached.append), mine, node.tls(), 5)
            dialled.release()
            for end in (dialled, *attached):
                end.received = received.append
            for end in (dialled, *attached):
                drained = asyncio.Event()
                end.drained = drained.set
                for frame in (b"small", b"small", bytes(8 << 20), b"small", b"small"):
                    end.send(frame)
                    async with asyncio.timeout(5):
                        await drained.wait()
                    drained.clear()
            for end in (dialled, *attached):
                end.abort()

    loop_run(body())


class Joined:
    """A wire between two transports of gRPC."""

    def __init__(self, data_port: int | None = 0) -> None:
        self.logged: list[str] = []
        self.here = GrpcTransport(dial_s=10, log=lambda level, text: self.logged.append(f"{level} {text}"))
        self.there = GrpcTransport(dial_s=10, data_port=data_port)
        self.place = WireServer(self.there)

    async def __aenter__(self) -> Joined:
        await self.place.open(f"{HOST}:0")
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.here.close()
        await self.there.close()

    async def dial(self) -> tuple[Recorder, Recorder]:
        """Returns both ends of a new wire."""
        mine, count = Recorder(), len(self.place.accepted)
        self.here.dial(self.place.address, b"me", mine)
        await mine.until("opened")
        return mine, await self.place.comes(count + 1)


@pytest.mark.parametrize("data_port", [0, None])
def test_urgent_frames_pass_much_data(data_port: int | None) -> None:
    """An urgent frame does not wait for 32 MiB of data, with a data connection and without one."""

    async def body() -> None:
        async with Joined(data_port) as joined:
            mine, theirs = await joined.dial()
            assert mine.wire is not None
            for _ in range(512):
                mine.wire.send_data(bytes(64 << 10))
            mine.wire.send(b"urgent")
            came = await theirs.until("received", 513)
            assert came.index(b"urgent") < 512

    run(body)


def test_a_wire_without_a_data_connection_works_and_logs_it_once() -> None:
    async def body() -> None:
        async with Joined() as joined:
            assert joined.there._data is not None and joined.there._data._server is not None
            joined.there._data._server.close()
            for _ in range(2):
                mine, theirs = await joined.dial()
                assert mine.wire is not None and theirs.wire is not None
                mine.wire.send_data(b"there")
                theirs.wire.send_data(b"back")
                assert await theirs.until("received") == [b"there"]
                assert await mine.until("received") == [b"back"]
                await mine.until("data_drained")
                mine.wire.close("enough")
            (line,) = joined.logged
            assert line.startswith("warning") and "has no data connection" in line and "cluster.data_port" in line

    run(body)


@pytest.mark.parametrize("side", ["dialer", "acceptor"])
def test_a_wire_ends_with_its_data_connection(side: str) -> None:
    async def body() -> None:
        async with Joined() as joined:
            mine, theirs = await joined.dial()
            wire: Any = (mine if side == "dialer" else theirs).wire
            wire._data._transport.abort()
            for end in (mine, theirs):
                (reason,) = await end.until("closed")
                assert "data connection is lost" in reason

    run(body)


def test_a_frame_that_is_too_large_breaks_the_wire() -> None:
    async def body() -> None:
        async with Joined() as joined:
            mine, theirs = await joined.dial()
            wire: Any = mine.wire
            wire._data._transport.write((MAX_FRAME + 1).to_bytes(4, "big"))
            (reason,) = await theirs.until("closed")
            assert f"a frame of {MAX_FRAME + 1} bytes, {MAX_FRAME} are allowed" in reason

    run(body)

"""The data connections of a node's wires: listening, dialling, and the proof that a connection belongs to a wire.

A wire opens over gRPC, where both ends prove that they know the cookie (`handshake`). There the acceptor offers a port
and a ticket. The dialer connects to that port and sends the ticket, and the acceptor answers. All three messages carry
an authentication code of the handshake, which only an end that knows the cookie can make. Each ticket is valid for one
connection. The acceptor closes a connection without a valid ticket and sends nothing on it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from functools import partial

import msgspec

from .data_stream import DataStream
from .grpc_settings import HANDSHAKE_S, Tls
from .handshake import NotProven, Session
from .strangers import Strangers
from .wire import TransportError

MAX_UNPROVEN = 64
"""Limit of connections that have shown no ticket yet. Further connections are closed at once."""

_ANSWER = b"taken"


class Offer(msgspec.Struct, frozen=True, array_like=True):
    """The port and the ticket for the data connection of a wire; port 0: the acceptor has no data connection.
    `stamp`: of the acceptor's event log, when it accepted the hello."""

    port: int
    ticket: bytes
    stamp: int = 0


encode_offer = msgspec.msgpack.Encoder().encode
_offer = msgspec.msgpack.Decoder(Offer)


def decode_offer(data: bytes) -> Offer:
    """Decode an offer. Raises `NotProven`, as for all messages of the acceptor before the wire is open."""
    try:
        return _offer.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotProven(f"its offer of {len(data)} bytes cannot be read: {error}") from error


class DataListener:
    """The listening side, for all wires of a transport. `nonce` makes tickets, `log` gets refused connections."""

    def __init__(self, tls: Tls | None, nonce: Callable[[], bytes], log: Callable[[str, str], None]) -> None:
        self._tls = tls
        self._nonce = nonce
        self._log = log
        self._strangers = Strangers()
        self._expected: dict[bytes, tuple[Session, Callable[[DataStream], None]]] = {}
        self._unproven: dict[DataStream, asyncio.TimerHandle] = {}
        self._server: asyncio.Server | None = None
        self.port = 0

    async def open(self, host: str, port: int) -> None:
        """Listen on a host; port 0: on any free one. Raises `TransportError`."""
        loop = asyncio.get_running_loop()
        try:
            context = None if self._tls is None else _listening(self._tls)
            timeout_s = HANDSHAKE_S if context is not None else None
            self._server = await loop.create_server(
                lambda: DataStream(self._came), host.strip("[]"), port, ssl=context, ssl_handshake_timeout=timeout_s
            )
        except (OSError, ValueError) as error:
            raise TransportError(
                f"cannot listen on {host}:{port} for the data of other nodes (cluster.data_port): {error}"
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]

    def offer(self, session: Session, attach: Callable[[DataStream], None]) -> Offer:
        """Expect the data connection of a wire. `attach` is called with it when the dialer has shown the ticket."""
        ticket = self._nonce()
        self._expected[ticket] = (session, attach)
        return Offer(self.port, ticket)

    def withdraw(self, offer: Offer) -> None:
        """The wire no longer waits for its data connection: the ticket becomes invalid."""
        self._expected.pop(offer.ticket, None)

    async def close(self) -> None:
        """Stop listening, and close the connections that have shown no ticket."""
        if self._server is not None:
            self._server.close()
        for stream in list(self._unproven):
            self._turn_away(stream, "")
        if self._server is not None:
            await self._server.wait_closed()

    def _came(self, stream: DataStream) -> None:
        if len(self._unproven) >= MAX_UNPROVEN:
            stream.abort()
            return
        loop = asyncio.get_running_loop()
        late = f"silent for {HANDSHAKE_S:g} s"
        self._unproven[stream] = loop.call_later(HANDSHAKE_S, self._turn_away, stream, late)
        stream.received = lambda frame: self._prove(stream, frame)
        stream.lost = lambda reason: self._turn_away(stream, reason)

    def _prove(self, stream: DataStream, frame: bytes) -> None:
        try:
            session, attach = self._expected.pop(ticket_of(frame), (None, None))
            if session is None or attach is None:
                raise NotProven("its ticket is not one of this node")
            session.open(frame)
            self._look_at(stream)
        except (NotProven, TransportError) as error:
            self._turn_away(stream, str(error))
            return
        self._unproven.pop(stream).cancel()
        stream.open_up()
        stream.send(session.seal(_ANSWER))
        attach(stream)

    def _look_at(self, stream: DataStream) -> None:
        """Check the certificate of a connection. Raises `NotProven` if it is not the certificate of a node."""
        if self._tls is not None and (problem := self._tls.rules().objection(stream.certificate or b"")):
            raise NotProven(problem)

    def _turn_away(self, stream: DataStream, reason: str) -> None:
        timer = self._unproven.pop(stream, None)
        if timer is None:
            return
        timer.cancel()
        stream.abort()
        line = self._strangers.refused(stream.peer, reason, time.monotonic() * 1000) if reason else None
        if line is not None:
            self._log("warning", line)


def ticket_of(frame: bytes) -> bytes:
    """Returns the ticket in the first frame of a dialer; the authentication code before it is not checked."""
    return frame[Session.CODE_BYTES :]


async def dial_data(host: str, offer: Offer, session: Session, tls: Tls | None, within_s: float) -> DataStream:
    """Open the data connection that an acceptor offers; it delivers no frames until `release`.

    Raises `TransportError`.
    """
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[bytes] = loop.create_future()
    where = f"{host}:{offer.port}"
    stream: DataStream | None = None
    try:
        async with asyncio.timeout(within_s):
            context = None if tls is None else _dialling(tls)
            name = None if tls is None else tls.name or host.strip("[]")
            _, stream = await loop.create_connection(
                DataStream, host.strip("[]"), offer.port, ssl=context, server_hostname=name
            )
            stream.received = partial(_answered, stream, answered)
            stream.lost = lambda reason: None if answered.done() else answered.set_exception(TransportError(reason))
            if tls is not None and (problem := tls.rules().objection(stream.certificate or b"")):
                raise TransportError(f"{where} is not accepted as a node: {problem}")
            stream.send(session.seal(offer.ticket))
            if session.open(await answered) != _ANSWER:
                raise TransportError(f"{where} does not take the connection")
        stream.open_up()
        return stream
    except BaseException as error:
        if stream is not None:
            stream.abort()
        if isinstance(error, TimeoutError):
            raise TransportError(f"no answer from {where} in {within_s:g} s") from error
        if isinstance(error, OSError | NotProven | ValueError):
            raise TransportError(f"cannot connect to {where}: {error}") from error
        raise


def _answered(stream: DataStream, answered: asyncio.Future[bytes], frame: bytes) -> None:
    """The acceptor has answered. The wire does not exist yet, so hold later frames for it."""
    stream.hold()
    if not answered.done():
        answered.set_result(frame)


def _listening(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certfile, tls.keyfile)
    context.load_verify_locations(tls.cafile)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _dialling(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(tls.cafile))
    context.load_cert_chain(tls.certfile, tls.keyfile)
    return context

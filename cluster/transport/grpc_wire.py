"""Wires over gRPC (`grpc.aio`): bytes in, bytes out, no generated code.

Three bidirectional methods of `/strogoff.Peer`. `Challenge` answers with a challenge in its trailers. `Stream` and
`Call` begin with the dialer's proof in their headers, and the acceptor's in the headers of the answer (`handshake`).
Until then neither side reads a message, so an unproven peer costs only the memory of headers. Then the first message
each way is hello and welcome, or request and answer. In a `Stream`, an offer of a data connection (`data_listener`) and
the dialer's choice follow, then frames.

Measured between two processes on two busy cores: 2,000 to 3,800 frames/s one way, with 100 bytes or 10 kB each, and
1,900 of 256 kB. So few large frames are faster than many small ones.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NoReturn

import grpc  # type: ignore[import-untyped]
from msgspec.structs import replace

from . import handshake
from .certificates import CertificateError, from_pem
from .data_listener import DataListener, Offer, decode_offer, dial_data, encode_offer
from .data_stream import DataStream
from .grpc_settings import HANDSHAKE_S, OPTIONS, SERVER_OPTIONS, Tls
from .grpc_stream import BESIDE, OVER_GRPC, GrpcWire, reason_of
from .handshake import Answering, Asking, NotProven, Session
from .pinning import trusted
from .strangers import Strangers
from .wire import (
    COOKIES_DIFFER,
    DEFAULT_COOKIE,
    DIAL_S,
    Accept,
    CallFailed,
    Calls,
    Refused,
    Stamps,
    TransportError,
    Unproven,
    WireEvents,
)

SERVICE = "strogoff.Peer"
CHALLENGE = f"/{SERVICE}/Challenge"
STREAM = f"/{SERVICE}/Stream"
CALL = f"/{SERVICE}/Call"

CHALLENGE_HEADER = "strogoff-challenge-bin"
PROOF_HEADER = "strogoff-proof-bin"
STAMP_HEADER = "strogoff-stamp-bin"
"""In the headers of a dialer, and in the trailers of an answer and of a refusal: a stamp (`Stamps`), 8 bytes."""

_REASON_LIMIT = 1000
"""Limit of characters of a reason in a status: gRPC limits its headers to 8 KiB."""

_LAST_WORD_S = 0.2

_NO_DATA = 1000
"""Number of addresses without a data connection that are remembered, so that each is logged once."""

_REFUSALS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
"""Codes of a node that takes this one for a stranger: because of its cookie, or of its certificate."""

_NO_PEER = ("closed", "reset", "HTTP", "SETTINGS")
"""One of them is in what gRPC says of a port that does not speak gRPC, such as one for MQTT, HTTP or TLS."""

_NO_ANSWER = "timed out before receiving SETTINGS"
"""In what gRPC says of a port whose process accepts the connection and then sends nothing."""

_QUOTED = 200
"""Limit of characters of an unproven peer's text in a log line."""


def _nonce() -> bytes:
    return secrets.token_bytes(handshake.NONCE_BYTES)


def _not_logged(level: str, text: str) -> None:
    """Default of `log`."""


class GrpcTransport:
    """Implements `Transport`. Belongs to the loop that runs at its first use. `cookie` is the shared secret of all
    nodes; `log` gets a line for a refused dialer."""

    def __init__(
        self,
        tls: Tls | None = None,
        dial_s: float = DIAL_S,
        cookie: str = DEFAULT_COOKIE,
        log: Callable[[str, str], None] = _not_logged,
        data_port: int | None = 0,
    ) -> None:
        """`data_port`: this node listens there for data connections; 0: any free port; None: all data uses gRPC."""
        self._tls = tls
        self._dial_s = dial_s
        self._key = handshake.key_of(cookie)
        self._answering = Answering(self._key, _nonce)
        self._strangers = Strangers()
        self._log = log
        self._stamps = Stamps()
        self._servers: list[Any] = []
        self._data_port = data_port
        self._data: DataListener | None = None
        self._no_data: dict[str, None] = {}
        self._wires: dict[GrpcWire, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def use_stamps(self, stamps: Stamps) -> None:
        """Implements `Transport.use_stamps`."""
        self._stamps = stamps

    # The dialling side

    def dial(self, address: str, hello: bytes, events: WireEvents) -> GrpcDialing:
        """Implements `Transport.dial`."""
        dialing = GrpcDialing(address, events)
        dialing.task = self._start(self._run_dial(dialing, hello))
        return dialing

    async def _channel(self, address: str, within_s: float) -> Any:
        tls = self._tls
        if tls is None:
            return grpc.aio.insecure_channel(address, options=OPTIONS)
        credentials = tls.channel(await trusted(address, tls, within_s))
        return grpc.aio.secure_channel(address, credentials, options=OPTIONS + tls.options)

    async def _run_dial(self, dialing: GrpcDialing, hello: bytes) -> None:
        try:
            channel = await self._channel(dialing.address, self._dial_s)
        except TransportError as error:
            dialing.events.closed(str(error))
            return
        try:
            await self._use_stream(dialing, channel, hello)
        finally:
            if dialing.wire is not None:
                self._wires.pop(dialing.wire, None)
            await channel.close()

    async def _use_stream(self, dialing: GrpcDialing, channel: Any, hello: bytes) -> None:
        address, events = dialing.address, dialing.events
        try:
            async with asyncio.timeout(self._dial_s):
                call, session = await self._prove(channel, STREAM)
                accepted, welcome = await self._said(call, session, hello)
                if not accepted:
                    await self._observe_trailers(call)
                data = await self._dial_data(call, session, address) if accepted else None
        except TimeoutError:
            events.closed(f"no answer from {address} in {self._dial_s:g} s")
            return
        except (_Failed, NotProven) as error:
            events.closed(self._explain(address, error))
            return
        if not accepted:
            call.cancel()
            events.closed(welcome.decode(errors="replace"))
            return
        wire = dialing.wire = GrpcWire(address, call.read, call.write, events)
        self._wires[wire] = None
        if data is not None:
            wire.attach(data)
        wire.start()
        events.opened(wire, welcome)
        try:
            await wire.run()
        finally:
            call.cancel()

    async def _dial_data(self, call: Any, session: Session, address: str) -> DataStream | None:
        """Open the data connection that the acceptor offers, if any, and send the choice to the acceptor.

        Returns None if data uses gRPC. Raises `_Failed`."""
        offer = decode_offer(session.open(await _next(call)))
        self._stamps.observe(offer.stamp)
        data = None
        if offer.port:
            host = address.rpartition(":")[0]
            try:
                data = await dial_data(host, offer, session, self._tls, self._dial_s / 2)
            except TransportError as error:
                self._say_no_data(address, str(error))
        try:
            await call.write(OVER_GRPC if data is None else BESIDE)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            if data is not None:
                data.abort()
            raise _Failed(await call.code(), await call.details()) from error
        return data

    def _say_no_data(self, address: str, reason: str) -> None:
        """Log a missing data connection, once for each address: a link that breaks is dialled often."""
        if address not in self._no_data and len(self._no_data) < _NO_DATA:
            self._no_data[address] = None
            self._log(
                "warning",
                f"{address} has no data connection, so messages go there over gRPC, which is much slower: {reason}. "
                "Let nodes reach each other at cluster.data_port, which can be set to a fixed port",
            )

    async def _prove(self, channel: Any, method: str) -> tuple[Any, Session]:
        """Do the handshake. Returns the gRPC call and the session in it. Raises `_Failed`, `NotProven`."""
        kind = handshake.STREAM if method == STREAM else handshake.CALL
        asking = Asking(self._key, kind, _nonce())
        question = channel.stream_stream(CHALLENGE)()
        try:
            challenge = await _trailer(question, CHALLENGE_HEADER)
        finally:
            question.cancel()
        call = channel.stream_stream(method)(metadata=((PROOF_HEADER, asking.proof(challenge)), self._stamped()))
        try:
            return call, asking.check(await _header(call, PROOF_HEADER))
        except BaseException:
            call.cancel()
            raise

    async def _said(self, call: Any, session: Session, content: bytes) -> tuple[bool, bytes]:
        """Read the acceptor's answer to a hello or a call. Raises `_Failed`, `NotProven`."""
        try:
            await call.write(session.seal(content))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            raise _Failed(await call.code(), await call.details()) from error
        return handshake.decode_verdict(session.open(await _next(call)))

    def _stamped(self) -> tuple[str, bytes]:
        return STAMP_HEADER, self._stamps.stamp().to_bytes(8, "big")

    async def _observe_trailers(self, call: Any) -> None:
        """Wait for the end of a call that was answered: its trailers have the stamp of the answer."""
        self._stamps.observe(_stamp_in(await call.trailing_metadata()))

    def _explain(self, address: str, error: _Failed | NotProven) -> str:
        """Returns why a dial or a call failed, as text for operators.

        It never begins with a code in brackets (`links.refusal`): the other end has proven nothing, so no program may
        act on it."""
        if isinstance(error, NotProven):
            return f"{address} does not prove that it is a node of this cluster: {error}. Perhaps {COOKIES_DIFFER}"
        if error.code is grpc.StatusCode.UNAUTHENTICATED:
            return f"{address} does not take this node for one of its cluster: {COOKIES_DIFFER}"
        if error.code is grpc.StatusCode.PERMISSION_DENIED:
            return (
                f"{address} does not take the certificate of this node: look at cluster.peer_names, "
                "cluster.peer_fingerprints and the crlfile of listener.vmqs there"
            )
        said = error.details.encode("unicode_escape").decode()[:_QUOTED]
        if error.code is not grpc.StatusCode.UNAVAILABLE:
            return f"{error.code.name}: {said}" if said else f"{address} closed the stream: {error.code.name}"
        if "connection refused" in error.details.lower():
            return f"nobody answers at {address} (connection refused)"
        if "resol" in error.details:
            return f"no address is found for the name in {address} ({said})"
        if _NO_ANSWER in error.details:
            return f"{address} accepts connections, but does not answer: it hangs, is stopped, or is overloaded"
        if self._tls is not None:
            return f"{said} (the connection to {address} uses TLS with certificates on both sides: listener.vmqs)"
        if any(word in error.details for word in _NO_PEER):
            return (
                f"{address} does not speak the protocol between nodes, or has closed the connection. Is it the port of "
                f"listener.vmq? If it is that of listener.vmqs, this node needs listener.vmqs, too ({said})"
            )
        return f"nobody answers at {address}: {said}"

    async def call(self, address: str, method: str, request: bytes, timeout_s: float) -> bytes:
        """Implements `Transport.call`."""
        try:
            channel = await self._channel(address, timeout_s)
        except TransportError as error:
            raise CallFailed(str(error)) from error
        try:
            async with channel, asyncio.timeout(timeout_s):
                call, session = await self._prove(channel, CALL)
                try:
                    answered, answer = await self._said(call, session, handshake.encode_request(method, request))
                    await self._observe_trailers(call)
                finally:
                    call.cancel()
        except TimeoutError as error:
            raise CallFailed(f"no answer from {address} in {timeout_s:g} s") from error
        except (_Failed, NotProven) as error:
            unproven = isinstance(error, NotProven) or error.code in _REFUSALS
            raise (Unproven if unproven else CallFailed)(self._explain(address, error)) from error
        if not answered:
            raise CallFailed(answer.decode(errors="replace"))
        return answer

    # The listening side

    async def serve(self, address: str, accept: Accept, calls: Calls | None = None) -> str:
        """Implements `Transport.serve`."""
        server = grpc.aio.server(options=SERVER_OPTIONS)
        server.add_generic_rpc_handlers((self._handlers(accept, calls),))
        try:
            if self._tls is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, self._tls.server())
        except RuntimeError as error:
            raise TransportError(f"cannot listen on {address}: is the port in use, the address one of ours?") from error
        await server.start()
        self._servers.append(server)
        if self._data_port is not None and self._data is None:
            self._data = DataListener(self._tls, _nonce, self._log)
            await self._data.open(address.rpartition(":")[0], self._data_port)
        return f"{address.rpartition(':')[0]}:{port}"

    def _handlers(self, accept: Accept, calls: Calls | None) -> Any:
        async def challenge(_requests: Any, context: Any) -> None:
            # In the trailers, for gRPC may lose the headers of a call that is over at once.
            context.set_trailing_metadata(((CHALLENGE_HEADER, self._answering.challenge()),))

        async def stream(_requests: Any, context: Any) -> None:
            await self._run_accepted(context, accept)

        async def call(_requests: Any, context: Any) -> None:
            await self._answer(context, calls)

        handlers = {"Challenge": challenge, "Stream": stream, "Call": call}
        return grpc.method_handlers_generic_handler(
            SERVICE, {name: grpc.stream_stream_rpc_method_handler(handler) for name, handler in handlers.items()}
        )

    async def _admit(self, context: Any, kind: bytes) -> tuple[Session, bytes] | None:
        """Do the handshake with a dialer. Returns the session and its request; None if the dialer has closed it."""
        if self._tls is not None and (problem := _objection(self._tls, context)):
            await self._turn_away(context, grpc.StatusCode.PERMISSION_DENIED, problem)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                proof, session = self._answering.admit(kind, _proof_in(context))
                await context.send_initial_metadata(((PROOF_HEADER, proof),))
                content = await context.read()
                if content is grpc.aio.EOF:
                    return None
                opened = session.open(content)
                self._stamps.observe(_stamp_in(context.invocation_metadata()))
                return session, opened
        except NotProven as error:
            reason = f"{error}; all nodes of a cluster have the same distributed_cookie"
            await self._turn_away(context, grpc.StatusCode.UNAUTHENTICATED, reason)
        except TimeoutError:
            await self._turn_away(context, grpc.StatusCode.DEADLINE_EXCEEDED, f"silent for {HANDSHAKE_S:g} s")

    async def _turn_away(self, context: Any, code: Any, reason: str) -> NoReturn:
        line = self._strangers.refused(_host(context.peer()), reason, time.monotonic() * 1000)
        if line is not None:
            self._log("warning", line)
        await context.abort(code, "not proven")
        raise AssertionError("abort raises")

    async def _answer(self, context: Any, calls: Calls | None) -> None:
        if (admitted := await self._admit(context, handshake.CALL)) is None:
            return
        session, content = admitted
        try:
            if calls is None:
                raise CallFailed("this node answers no calls")
            verdict = handshake.encode_verdict(True, await calls(*handshake.decode_request(content)))
        except (CallFailed, NotProven) as error:
            verdict = handshake.encode_verdict(False, str(error).encode())
        context.set_trailing_metadata((self._stamped(),))
        await context.write(session.seal(verdict))

    async def _run_accepted(self, context: Any, accept: Accept) -> None:
        if (admitted := await self._admit(context, handshake.STREAM)) is None:
            return
        session, hello = admitted
        wire = GrpcWire(_host(context.peer()), context.read, context.write)
        wire.await_choice()
        verdict = accept(hello, wire)
        if isinstance(verdict, Refused):
            context.set_trailing_metadata((self._stamped(),))
            await context.write(session.seal(handshake.encode_verdict(False, verdict.reason.encode())))
            return
        self._wires[wire] = None
        wire.events = verdict.events
        offer = Offer(0, b"") if self._data is None else self._data.offer(session, wire.attach)
        sent = encode_offer(replace(offer, stamp=self._stamps.stamp()))
        wire.start([session.seal(handshake.encode_verdict(True, verdict.welcome)), session.seal(sent)])
        try:
            reason = await wire.run()
        finally:
            if self._data is not None:
                self._data.withdraw(offer)
            self._wires.pop(wire, None)
        await context.abort(grpc.StatusCode.ABORTED, reason[:_REASON_LIMIT])

    # The end

    async def close(self) -> None:
        """Implements `Transport.close`."""
        for wire in list(self._wires):
            wire.close("the node at the other end stops")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._data is not None:
            await self._data.close()
            self._data = None
        for server in self._servers:
            # A handler needs a moment to send the reason for the end; after that it is cancelled.
            await server.stop(0.2)
        self._servers.clear()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class GrpcDialing:
    """Implements `Dialing`."""

    __slots__ = ("address", "events", "task", "wire")

    def __init__(self, address: str, events: WireEvents) -> None:
        self.address = address
        self.events = events
        self.task: asyncio.Task[None] | None = None
        self.wire: GrpcWire | None = None

    def cancel(self) -> None:
        """Implements `Dialing.cancel`."""
        if self.wire is not None:
            self.wire.close("cancelled by the dialer")
        elif self.task is not None:
            self.task.cancel()


class _Failed(Exception):
    """gRPC ended a call without an answer. Nothing in its text is proven."""

    def __init__(self, code: Any, details: str | None) -> None:
        super().__init__(reason_of(code, details))
        self.code = code
        self.details = details or ""


async def _next(call: Any) -> bytes:
    """Read the next message. Raises `_Failed`."""
    try:
        answer = await call.read()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        answer = grpc.aio.EOF
    if answer is grpc.aio.EOF:
        raise _Failed(await call.code(), await call.details())
    assert isinstance(answer, bytes)
    return answer


async def _header(call: Any, name: str) -> bytes:
    """Returns a header of the answer. Raises `_Failed`, or `NotProven` if the answer lacks it."""
    try:
        return _value(await call.initial_metadata(), name)
    except grpc.aio.AioRpcError as error:
        raise _Failed(error.code(), error.details()) from error
    except NotProven as error:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORD_S):  # a call that was refused has no headers either
                raise _Failed(await call.code(), await call.details()) from error
        raise


async def _trailer(call: Any, name: str) -> bytes:
    """Returns a value from the trailers of the answer, like `_header`."""
    code = await call.code()
    if code is grpc.StatusCode.OK:
        return _value(await call.trailing_metadata(), name)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        raise NotProven("it does not speak the protocol between nodes")
    raise _Failed(code, await call.details())


def _value(metadata: Any, name: str) -> bytes:
    value = dict(metadata or ()).get(name)
    if not isinstance(value, bytes):
        raise NotProven("it does not speak the protocol between nodes")
    return value


def _objection(tls: Tls, context: Any) -> str:
    """Returns the reason why a dialer's certificate does not belong to a node; "" if it does or need not."""
    try:
        (der,) = from_pem(context.auth_context()["x509_pem_cert"][0], "CERTIFICATE")
        return tls.rules().objection(der)
    except (CertificateError, TransportError) as error:
        return str(error)


def _stamp_in(metadata: Any) -> int:
    """Returns the stamp among headers or trailers; 0 if there is none, as from a node that does not send it."""
    stamp = dict(metadata or ()).get(STAMP_HEADER)
    return int.from_bytes(stamp, "big") if isinstance(stamp, bytes) and len(stamp) == 8 else 0


def _proof_in(context: Any) -> bytes:
    proof = dict(context.invocation_metadata() or ()).get(PROOF_HEADER)
    return proof if isinstance(proof, bytes) else b""


def _host(peer: str) -> str:
    """HOST:PORT of what gRPC calls a peer, as in ipv4:10.0.0.1:44053 or ipv6:%5B::1%5D:44053."""
    return peer.partition(":")[2].replace("%5B", "[").replace("%5D", "]") or peer

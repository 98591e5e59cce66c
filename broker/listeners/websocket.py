"""MQTT over WebSocket (MQTT 5.0 section 6): a connection with an HTTP upgrade, then MQTT in WebSocket frames.

Framing is that of the `websockets` library without its I/O (RFC 6455). No extension is offered: MQTT frames are small,
and compression would cost 64 KB and more per connection. Reading a frame costs some microseconds, so a bounded number
of frames of a connection is read in one turn of the loop. The rest waits, and its socket is not read meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from websockets.exceptions import PayloadTooBig
from websockets.frames import CloseCode, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from ..connection.transport import CLOSE_BOUND_S, PEER_CLOSED, ConnectionPort
from .connection import Connection
from .frame_splitter import FrameSplitter
from .limiter import ConnectionLimiter
from .upgrade import SUBPROTOCOLS, UpgradeError, complete_head, forwarded, parse_head

SHUTTING_DOWN = "shutting_down"
"""The reason of an end that is sent to the peer as close code 1001, "going away"."""

STEP_BYTES = 4096
FRAMES_PER_TURN = 256
"""Frames are counted after each `STEP_BYTES` of input; after `FRAMES_PER_TURN` of them the rest of the input waits."""
_PONG = b"\x8a"
"""The first byte of a pong."""

_library_log = logging.getLogger("strogoff.websocket")
_library_log.setLevel(logging.ERROR)
"""The library logs every connection at level info."""


class WebSocketConnection(Connection):
    """MQTT in the binary frames of a WebSocket."""

    __slots__ = ("full", "muted", "pong", "rest", "splitter", "ws")

    def __init__(self, limiter: ConnectionLimiter) -> None:
        super().__init__(limiter)
        self.ws: ServerProtocol | None = None
        """None until the upgrade is complete."""
        self.splitter = FrameSplitter()
        self.rest = b""
        """Input whose frames wait for the next turn."""
        self.muted = False
        """The handler has paused reading."""
        self.full = False
        """The transport's buffer is above its high mark."""
        self.pong = b""
        """The answer to the last ping that came while the buffer was full."""

    # -- calls of the handler

    def write(self, data: bytes, /) -> None:
        """As `ClientTransport.write`, one binary frame [MQTT-6.0.0-1] [MQTT5-6.0.0-1]."""
        ws = self.ws
        if not self.closing and ws is not None and ws.state is State.OPEN:
            ws.send_binary(data)
            self._send()

    def close(self) -> None:
        """As `ClientTransport.close`: the closing handshake of RFC 6455 section 7.1.2, bounded, then the end of the
        stream."""
        if self.closing:
            return
        ws = self.ws
        if ws is None or ws.state is not State.OPEN or self.transport.is_closing():
            if ws is not None:
                # the peer's close frame may have come with the packet that makes the handler close: answer the frame
                # first
                self._write_frames(ws)
            self.finish()
            return
        self.closing = True
        self.muted = False
        going_away = self.reason == SHUTTING_DOWN
        ws.send_close(CloseCode.GOING_AWAY if going_away else CloseCode.NORMAL_CLOSURE)
        self.timer = asyncio.get_running_loop().call_later(CLOSE_BOUND_S, self._overdue)
        if self.rest:
            self._next_turn()
        elif not self.transport.is_reading():
            self.transport.resume_reading()
        self._send()

    def pause_reading(self) -> None:
        """As `ClientTransport.pause_reading`."""
        self.muted = True
        super().pause_reading()

    def resume_reading(self) -> None:
        """As `ClientTransport.resume_reading`: input that waits here is handled first."""
        muted, self.muted = self.muted, False
        if not self.rest:
            super().resume_reading()
        elif muted:
            self._next_turn()

    def accepted(self) -> None:
        """As `ClientTransport.accepted`: a frame may be as large as the listener allows."""
        if self.ws is not None:
            self.ws.max_size = self._largest(None)

    def pause_writing(self) -> None:
        """The transport's buffer is above its high mark."""
        self.full = True
        super().pause_writing()

    def resume_writing(self) -> None:
        """The transport's buffer is below its low mark again: the last ping is answered (RFC 6455 section 5.5.3)."""
        self.full = False
        pong, self.pong = self.pong, b""
        if pong and not self.closing:
            self.traffic.bytes_sent += len(pong)
            self.transport.write(pong)
        super().resume_writing()

    # -- the end of the input

    def eof_received(self) -> None:
        """As `Connection.eof_received`. TLS reports the end of the stream also while it is not read."""
        self._read_all_of_the_rest()
        super().eof_received()

    def _last_words(self) -> None:
        super()._last_words()
        self._read_all_of_the_rest()

    def _read_all_of_the_rest(self) -> None:
        """Read the frames that wait, because no further turn comes. The last one may be the client's DISCONNECT."""
        data, self.rest = self.rest, b""
        if data:
            self._read_frames(data)

    # -- the upgrade

    def introduced(self) -> None:
        """The address of the peer is known: now it must request a WebSocket."""
        self._start_opening_timer()
        self.opening = bytearray()
        self.receive = self._receive_head

    def opening_overdue(self) -> None:
        """The upgrade took too long."""
        if self.opening:
            self._refuse(UpgradeError(HTTPStatus.REQUEST_TIMEOUT, "the request is not complete"))
        else:
            self.abort()

    def _receive_head(self, data: bytes) -> None:
        head: bytearray = self.opening
        head += data
        settings = self.limiter.settings
        origin = self.origin
        assert origin is not None
        try:
            size = complete_head(head, settings)
            if not size:
                return
            parsed = parse_head(bytes(head[:size]), settings)
            response = self._upgrade(bytes(head[:size]))
        except UpgradeError as error:
            self._refuse(error)
            return
        ws = self.ws
        assert ws is not None
        ws.send_response(response)
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            self._log_refusal(str(ws.handshake_exc))
            self._send()
            return
        client = forwarded(parsed, origin.peer_host, settings)
        if client.host is not None:
            origin.peer_host, origin.peer_port = client.host, client.port
        if client.common_name is not None:
            origin.username = client.common_name
        self._send()
        rest = bytes(head[size:])
        self.open()
        if rest:
            self.receive(rest)

    def _upgrade(self, head: bytes) -> Response:
        """The answer. Clients that offer no sub-protocol of MQTT are refused [MQTT-6.0.0-3] [MQTT5-6.0.0-3]."""
        self._new_protocol()
        ws = self.ws
        assert ws is not None
        ws.receive_data(head)
        for event in ws.events_received():
            if isinstance(event, Request):
                return ws.accept(event)
        raise UpgradeError(
            HTTPStatus.BAD_REQUEST, f"{ws.handshake_exc}: {ws.handshake_exc and ws.handshake_exc.__cause__}"
        )

    def _new_protocol(self) -> None:
        self.ws = ServerProtocol(
            subprotocols=[Subprotocol(name) for name in SUBPROTOCOLS],  # [MQTT-6.0.0-4] [MQTT5-6.0.0-4]
            max_size=self._largest(self.limiter.options.opening_frame_bytes),
            logger=_library_log,
        )

    def _largest(self, bound: int | None) -> int | None:
        sizes = [size for size in (bound, self.limiter.settings.max_ws_frame_size) if size is not None]
        return min(sizes, default=None)

    def _refuse(self, error: UpgradeError) -> None:
        self._new_protocol()
        ws = self.ws
        assert ws is not None
        self._log_refusal(error.detail)
        response = ws.reject(error.status, f"{error.detail}\n")
        if error.status is HTTPStatus.METHOD_NOT_ALLOWED:
            response.headers["Allow"] = "GET"
        ws.send_response(response)
        self._send()

    def _log_refusal(self, detail: str) -> None:
        self.traffic.websocket_error += 1
        peer = self.origin.peer_host if self.origin is not None else ""
        self.limiter.log_refused("ws.refuse", f"WebSocket refused: {detail}", peer)

    # -- frames

    def to_handler(self, handler: ConnectionPort) -> Callable[[bytes], None]:
        """As `Connection.to_handler`; the frames are decoded first."""
        return self._receive_frames

    def _receive_frames(self, data: bytes) -> None:
        if self.rest:
            self.rest += data
            return
        frames = 0
        for begin in range(0, len(data), STEP_BYTES):
            if frames >= FRAMES_PER_TURN and not self.ending:
                self.rest = data[begin:]
                if self.transport.is_reading():
                    self.transport.pause_reading()
                self._next_turn()
                return
            frames += self._read_frames(data[begin : begin + STEP_BYTES])

    def _next_turn(self) -> None:
        asyncio.get_running_loop().call_soon(self._read_rest)

    def _read_rest(self) -> None:
        if self.muted or not self.rest:
            return
        data, self.rest = self.rest, b""
        if self.ending:
            return
        self._receive_frames(data)
        if not self.rest and not self.muted and self.transport is not None and not self.transport.is_reading():
            self.transport.resume_reading()

    def _read_frames(self, data: bytes) -> int:
        """Read the frames that these bytes complete. Returns their number."""
        ws = self.ws
        assert ws is not None
        ws.receive_data(self.splitter.split(data, ws.max_size))
        pieces: list[Any] = []
        text = False
        events = ws.events_received()
        for event in events:
            opcode = event.opcode  # type: ignore[union-attr]
            if opcode is Opcode.BINARY or opcode is Opcode.CONT:
                pieces.append(event.data)  # type: ignore[union-attr]
            elif opcode is Opcode.TEXT:
                text = True
                break
        handler = self.handler
        if pieces and handler is not None and not self.closing:
            # packets and frames need not begin together [MQTT-6.0.0-2] [MQTT5-6.0.0-2]
            handler.receive(pieces[0] if len(pieces) == 1 and type(pieces[0]) is bytes else b"".join(pieces))
        if text and not ws.eof_sent:
            # [MQTT-6.0.0-1] [MQTT5-6.0.0-1]
            ws.fail(CloseCode.UNSUPPORTED_DATA, "MQTT needs binary frames")
            self.traffic.websocket_error += 1
            self.reason = self.reason or "websocket_text_frame"
        elif ws.parser_exc is not None:
            self.traffic.websocket_error += 1
            too_large = isinstance(ws.parser_exc, PayloadTooBig)
            self.reason = self.reason or ("websocket_frame_too_large" if too_large else "websocket_protocol_error")
        if ws.writes:
            self._send()
        return len(events)

    def _send(self) -> None:
        """Send the library's output; when it ends the stream, end the connection."""
        ws = self.ws
        assert ws is not None
        if self._write_frames(ws):
            self.closing = True
            self.tell_lost(self.reason or PEER_CLOSED)
            self.finish()

    def _write_frames(self, ws: ServerProtocol) -> bool:
        """Write the library's output. Returns whether it has ended the stream."""
        ended = False
        for chunk in ws.data_to_send():
            if self.full and chunk[:1] == _PONG:
                self.pong = chunk
            elif chunk:
                self.traffic.bytes_sent += len(chunk)
                self.transport.write(chunk)
            else:
                ended = True
        return ended

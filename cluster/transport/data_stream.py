"""A separate connection for the data of a wire, TCP or TLS: frames with their lengths.

gRPC needs two or three turns of the loop and about 0.3 ms of CPU for a frame. That is too much for messages of clients:
a busy node would handle frames more slowly than they arrive. This connection needs one turn.

    frame       length in bytes (4 bytes, big endian), then that many bytes

The first frame each way is the proof that the connection belongs to a wire (`data_listener`). A later message cannot
overtake data in the buffers of the kernel, so these buffers are small.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from time import monotonic
from typing import cast

from .wire import MAX_FRAME, NOTICE_S

LENGTH_BYTES = 4

PROOF_BYTES = 256
"""The largest first frame, in bytes: the most that this side buffers for a peer without a proof."""

KERNEL_BYTES = 128 << 10
"""Size of the kernel's buffers at each end, in bytes."""

TURN_S = 0.002
"""How long one turn of the loop delivers frames, in seconds; then other callbacks run."""


def _nobody(_: object) -> None:
    """Default of a callback."""


class DataStream(asyncio.Protocol):
    """One end of a data connection. The owner sets `received(frame)`, `drained()` and `lost(reason)`.

    `send` and `abort` call none of them; after `abort` none is called any more.
    """

    def __init__(self, made: Callable[[DataStream], None] = _nobody) -> None:
        self.received: Callable[[bytes], None] = _nobody
        self.drained: Callable[[], None] = lambda: None
        self.lost: Callable[[str], None] = _nobody
        self.limit = PROOF_BYTES
        """The largest frame that is accepted, in bytes."""
        self.peer = ""
        self._made = made
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._full = False
        self._resting = False
        self._over = False

    def open_up(self) -> None:
        """The other end has proven itself: accept frames up to the full size."""
        self.limit = MAX_FRAME

    @property
    def queued_bytes(self) -> int:
        """Bytes given to `send` that the kernel has not taken yet."""
        return 0 if self._transport is None or self._over else self._transport.get_write_buffer_size()

    @property
    def certificate(self) -> bytes | None:
        """The certificate of the other end (DER); None without TLS."""
        assert self._transport is not None
        tls = self._transport.get_extra_info("ssl_object")
        return None if tls is None else tls.getpeercert(binary_form=True)

    def send(self, frame: bytes) -> None:
        """Queue a frame. Does nothing after the end of the connection."""
        if self._over or self._transport is None:
            return
        self._transport.write(len(frame).to_bytes(LENGTH_BYTES, "big") + frame)
        if not self._full:
            self._loop.call_soon(self._drained)

    def hold(self) -> None:
        """The owner is not ready: deliver no frame until `release`."""
        if self._transport is not None and not self._over:
            self._resting = True
            self._transport.pause_reading()

    def release(self) -> None:
        """Deliver the frames that arrived since `hold`, from the next turn on."""
        self._loop.call_soon(self._go_on)

    def abort(self) -> None:
        """End the connection and drop the queued frames."""
        self._over = True
        self._buffer.clear()
        if self._transport is not None:
            self._transport.abort()

    # Events of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is open. Set its buffers and tell the owner."""
        self._transport = transport = cast(asyncio.Transport, transport)  # that of uvloop is no subclass
        # not 0: TLS calls `pause_writing` when the limit is reached, so also with an empty buffer
        transport.set_write_buffer_limits(high=1, low=0)
        host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]
        self.peer = f"{host}:{port}"
        _tune(transport.get_extra_info("socket"))
        self._made(self)

    def connection_lost(self, error: Exception | None) -> None:
        """asyncio: the connection is closed. Call `lost`, unless this end aborted it."""
        if not self._over:
            self._over = True
            self._buffer.clear()
            self.lost(f"the data connection is lost: {error or 'the other end has closed it'}")

    def pause_writing(self) -> None:
        """asyncio: frames wait for the kernel. `drained` is called once it has taken them."""
        self._full = True

    def resume_writing(self) -> None:
        """asyncio: the kernel has taken all frames. Call `drained`."""
        self._full = False
        self._drained()

    def _drained(self) -> None:
        if not self._over and not self._full:
            self.drained()

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes arrived. Deliver the complete frames, unless the owner holds them."""
        if not self._over:
            self._buffer += data
            if not self._resting:
                self._hand_out()

    def _hand_out(self) -> None:
        """Deliver complete frames, for about `TURN_S`."""
        buffer = self._buffer
        used = 0
        until = monotonic() + TURN_S
        while not self._over and not self._resting and len(buffer) - used >= LENGTH_BYTES:
            begin = used + LENGTH_BYTES
            size = int.from_bytes(buffer[used:begin], "big")
            if size > self.limit:
                self._break(f"a frame of {size} bytes, {self.limit} are allowed")
                return
            if len(buffer) - begin < size:
                break
            if used and monotonic() >= until:
                self.hold()
                self.release()
                break
            used = begin + size
            self.received(bytes(buffer[begin:used]))
        del buffer[:used]

    def _go_on(self) -> None:
        self._resting = False
        if self._over:
            return
        self._hand_out()
        if not self._resting and not self._over:
            assert self._transport is not None
            self._transport.resume_reading()

    def _break(self, reason: str) -> None:
        self.abort()
        self._loop.call_soon(self.lost, f"the data connection is broken: {reason}")


def _tune(connection: socket.socket | None) -> None:
    """Set small buffers, and let the kernel close a connection whose other end is silent."""
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    wanted = [(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES), (socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BYTES)]
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        wanted.append((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(NOTICE_S * 1000)))
    for level, option, value in wanted:
        with contextlib.suppress(OSError):
            connection.setsockopt(level, option, value)

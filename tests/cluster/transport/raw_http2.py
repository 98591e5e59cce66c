"""A client that speaks HTTP/2 by hand (RFC 9113): it sends as much as the peer's windows allow, and
counts the bytes.
"""

from __future__ import annotations

import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_ACK, _END_HEADERS = 1, 4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def headers(path: str, extra: list[tuple[str, str]] | None = None) -> bytes:
    """A header block without compression (RFC 7541, 6.2.2)."""
    fields = [
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"),
        ("content-type", "application/grpc"), ("te", "trailers"), *(extra or []),
    ]  # fmt: skip
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)


def _text(text: str) -> bytes:
    data = text.encode()
    if len(data) < 127:
        return bytes((len(data),)) + data
    rest, more = len(data) - 127, b""
    while rest >= 128:
        more += bytes((rest % 128 | 128,))
        rest //= 128
    return b"\x7f" + more + bytes((rest,)) + data


class RawHttp2Client:
    """A connection. `closed` is set when the other side has ended it."""

    def __init__(self, address: str, within_s: float = 5.0) -> None:
        host, _, port = address.rpartition(":")
        self._end = time.monotonic() + within_s
        self._socket = socket.create_connection((host, int(port)), timeout=within_s)
        self._socket.settimeout(0.05)
        self._in = self.heard = b""
        self.closed = False
        self.mute = False
        """Answer nothing, not even what HTTP/2 asks for."""
        self.window = 65535
        self.initial = 65535
        self.windows: dict[int, int] = {}
        self.over: set[int] = set()
        self.seen: list[tuple[int, int]] = []

    def close(self) -> None:
        """End it."""
        self._socket.close()

    @property
    def late(self) -> bool:
        """Called when the time is over."""
        return time.monotonic() > self._end

    def send(self, data: bytes) -> None:
        """Bytes, as they are."""
        try:
            self._socket.settimeout(max(0.01, self._end - time.monotonic()))
            self._socket.sendall(data)
        except OSError:
            self.closed = True

    def hello(self) -> None:
        """Send the preface of HTTP/2."""
        self.send(PREFACE + frame(SETTINGS, 0, 0))

    def ask(self, stream: int, path: str, extra: list[tuple[str, str]] | None = None) -> None:
        """Open a stream."""
        self.windows[stream] = self.initial
        self.send(frame(HEADERS, _END_HEADERS, stream, headers(path, extra)))

    def hear(self, for_s: float = 0.05) -> None:
        """Read the received frames and update the windows."""
        self._socket.settimeout(for_s)
        try:
            data = self._socket.recv(1 << 16)
            self.closed = self.closed or not data
            self._in += data
            self.heard += data
        except TimeoutError:
            pass
        except OSError:
            self.closed = True
        while len(self._in) >= 9:
            size = int.from_bytes(self._in[:3], "big")
            if len(self._in) < 9 + size:
                return
            kind, flags = self._in[3], self._in[4]
            stream = int.from_bytes(self._in[5:9], "big")
            payload, self._in = self._in[9 : 9 + size], self._in[9 + size :]
            self._take(kind, flags, stream, payload)

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        self.seen.append((kind, stream))
        if self.mute:
            return
        if kind == SETTINGS and not flags & _ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[at : at + 6])
                if name == 4:
                    for each in self.windows:
                        self.windows[each] += value - self.initial
                    self.initial = value
            self.send(frame(SETTINGS, _ACK, 0))
        elif kind == PING and not flags & _ACK:
            self.send(frame(PING, _ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            (more,) = struct.unpack(">I", payload)
            if stream:
                self.windows[stream] = self.windows.get(stream, 0) + more
            else:
                self.window += more
        elif kind == RST_STREAM or (kind == HEADERS and flags & 1):
            self.over.add(stream)

    def push(self, stream: int, size: int) -> int:
        """Send a message of `size` bytes as far as the windows allow; returns the number of bytes sent."""
        data = b"\0" + struct.pack(">I", size) + bytes(min(size, 1 << 20))
        sent = 0
        while sent < size and not self.closed and not self.late and stream not in self.over:
            room = min(self.window, self.windows[stream], 16384)
            if room <= 0:
                before = (self.window, self.windows[stream])
                for _ in range(10):
                    self.hear()
                    if (self.window, self.windows[stream]) != before or self.closed or stream in self.over:
                        break
                else:
                    break  # the other side accepts no more
                continue
            chunk = data[:room] if sent == 0 else bytes(room)
            self.send(frame(DATA, 0, stream, chunk))
            self.window -= len(chunk)
            self.windows[stream] -= len(chunk)
            sent += len(chunk)
            if sent % (1 << 18) < 16384:
                self.hear(0.001)
        return sent

"""The network between hosts within one process, on any loop that has `call_soon` and `call_later`, with faults.

Each node has one `MemoryTransport` on it under a host name, and faults are between host names. A cut behaves as with
TCP: what is sent into it waits (retransmission), and comes late if the cut heals in time; after `notice_s` both ends of
every stream across it are closed. Dials and calls into a cut get no answer. In a one-way cut the other direction
delivers until then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from .handshake import NONCE_BYTES, Answering
from .memory_stream import Path, Stream, Timer
from .wire import DIAL_S, NOTICE_S, Accept, CallFailed, TransportError

Answer = Callable[[bytes | CallFailed], None]
"""Takes the result of a call, once."""

Handler = Callable[[str, bytes, Answer], None]
"""Answers a call (method, request), now or later."""

Soon = Callable[[Callable[[], None]], object]
Later = Callable[[float, Callable[[], None]], Timer]


class Server(Protocol):
    """Who listens at an address."""

    host: str
    alive: bool
    accept: Accept
    handler: Handler | None
    answering: Answering


class MemoryNetwork:
    """Hosts, the paths between them, and what is wrong with these. All times in seconds of the given loop."""

    def __init__(self, soon: Soon, later: Later, notice_s: float = NOTICE_S, dial_s: float = DIAL_S) -> None:
        self.soon = soon
        self.later = later
        self.notice_s = notice_s
        self.dial_s = dial_s
        self.servers: dict[str, Server] = {}
        self.streams: dict[Stream, None] = {}
        self._ports = self._nonces = 0
        self._delays: dict[Path, float] = {}
        self._cuts: dict[Path, int] = {}
        self._cut_number = 0
        self._held: dict[Path, deque[tuple[Callable[[], None], int, bool]]] = {}

    # Faults

    def cut(self, a: str, b: str) -> None:
        """Nothing passes between a and b, either way."""
        self.one_way(a, b)
        self.one_way(b, a)

    def one_way(self, a: str, b: str) -> None:
        """Nothing passes from a to b; the other direction works until both notice."""
        if (a, b) in self._cuts:
            return
        self._cut_number += 1
        number = self._cut_number
        self._cuts[a, b] = number
        self.later(self.notice_s, lambda: self._notice(a, b, number))

    def _notice(self, a: str, b: str, number: int) -> None:
        if self._cuts.get((a, b)) == number:
            self.drop(a, b, "the peer does not answer")
            self._held.pop((a, b), None)
            self._held.pop((b, a), None)
            # Streams that open one way while the cut lasts have to be noticed as well.
            self.later(self.notice_s, lambda: self._notice(a, b, number))

    def heal(self, a: str | None = None, b: str | None = None) -> None:
        """End the cuts between a and b; all of a's without b; all without both. What waited goes on its way, unless the
        path is cut again in the same turn."""
        for path in list(self._cuts):
            if (a is None or a in path) and (b is None or b in path):
                del self._cuts[path]
                if path in self._held:
                    self.soon(partial(self._release, path))

    def _release(self, path: Path) -> None:
        if path not in self._cuts:
            for step, size, data in self._held.pop(path, ()):
                self._travel(path, step, size, data)

    def delay(self, a: str, b: str, seconds: float) -> None:
        """What goes from a to b from now on takes so long. One direction."""
        self._delays[a, b] = seconds

    def drop(self, a: str, b: str, reason: str = "connection reset") -> None:
        """Break all streams between a and b now: both ends of each close."""
        for stream in list(self.streams):
            if {a, b} == {stream.near.host, stream.far.host}:
                stream.broken(reason)

    def is_cut(self, a: str, b: str) -> bool:
        """Whether nothing passes from a to b."""
        return (a, b) in self._cuts

    @property
    def cuts(self) -> dict[Path, int]:
        """Where nothing passes; what is healed and cut again has another number."""
        return dict(self._cuts)

    def nonce(self) -> bytes:
        """A number that comes once. Nobody guesses within one process, so it need not be random."""
        self._nonces += 1
        return self._nonces.to_bytes(NONCE_BYTES, "big")

    # Ways

    def send(self, path: Path, step: Callable[[], None], size: int = 0, data: bool = False) -> None:
        """Do `step` when it has come to the end of the path; `size` is how many bytes travel, `data` on which way. A
        delay that shrinks lets later ones overtake."""
        if path in self._cuts or path in self._held:
            self._held.setdefault(path, deque()).append((step, size, data))
        else:
            self._travel(path, step, size, data)

    def _travel(self, path: Path, step: Callable[[], None], size: int, data: bool) -> None:
        delay_s = self._delays.get(path, 0.0)
        if delay_s > 0:
            self.later(delay_s, step)
        else:
            self.soon(step)

    def over(self, stream: Stream) -> None:
        """Both ends of the stream are closed."""
        self.streams.pop(stream, None)

    def bind(self, address: str, server: Server) -> str:
        """Register a server under an address, port 0 replaced by a free one."""
        host, _, port = address.rpartition(":")
        if port == "0":
            self._ports += 1
            address = f"{host}:{self._ports}"
        if address in self.servers:
            raise TransportError(f"cannot listen on {address}: it is in use")
        self.servers[address] = server
        return address

"""The network between hosts within one process, on any loop that has `call_soon` and `call_later`, with faults.

Each node has one `MemoryTransport` with a host name, and faults are between host names. A cut behaves as with TCP: data
that is sent into it waits (retransmission), and arrives late if the cut heals in time. After `notice_s` both ends of
every stream across it are closed. Dials and calls into a cut get no answer. A one-way cut stops one direction at once;
the other direction delivers until the streams are closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from .handshake import NONCE_BYTES, Answering
from .memory_stream import Path, Stream, Timer
from .wire import DIAL_S, NOTICE_S, Accept, CallFailed, Stamps, TransportError

Answer = Callable[[bytes | CallFailed], None]
"""Takes the result of a call, once."""

Handler = Callable[[str, bytes, Answer], None]
"""`handler(method, request, answer)`: called for each call; it calls `answer` once, now or later."""

Soon = Callable[[Callable[[], None]], object]
Later = Callable[[float, Callable[[], None]], Timer]


class Server(Protocol):
    """The process that listens at an address."""

    host: str
    alive: bool
    accept: Accept
    handler: Handler | None
    answering: Answering
    stamps: Stamps


class MemoryNetwork:
    """Hosts, the paths between them, and the faults of the paths. All times in seconds of the given loop."""

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
        """Cut the path between a and b in both directions."""
        self.one_way(a, b)
        self.one_way(b, a)

    def one_way(self, a: str, b: str) -> None:
        """Cut the path from a to b; the other direction works until both ends notice, after `notice_s`."""
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
            # A stream may open across a one-way cut meanwhile: its ends notice the cut as well.
            self.later(self.notice_s, lambda: self._notice(a, b, number))

    def heal(self, a: str | None = None, b: str | None = None) -> None:
        """End the cuts between a and b; without b all cuts of a; without both all cuts.

        Waiting data then travels on, unless the path is cut again in the same turn.
        """
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
        """From now on data from a to b takes this time. The other direction keeps its own delay."""
        self._delays[a, b] = seconds

    def drop(self, a: str, b: str, reason: str = "connection reset") -> None:
        """Break all streams between a and b now: both ends of each close."""
        for stream in list(self.streams):
            if {a, b} == {stream.near.host, stream.far.host}:
                stream.broken(reason)

    def is_cut(self, a: str, b: str) -> bool:
        """Whether the path from a to b is cut."""
        return (a, b) in self._cuts

    @property
    def cuts(self) -> dict[Path, int]:
        """The cut paths, each with the number of its cut: a path that is healed and cut again has another number."""
        return dict(self._cuts)

    def nonce(self) -> bytes:
        """Returns a number that this network never returns again. Tests have no attacker, so it need not be random."""
        self._nonces += 1
        return self._nonces.to_bytes(NONCE_BYTES, "big")

    # Ways

    def send(self, path: Path, step: Callable[[], None], size: int = 0, data: bool = False) -> None:
        """Call `step` when the data arrives at the end of the path, after the path's delay.

        `size` is the number of bytes, `data` tells whether they use the data channel. If the delay shrinks, later data
        overtakes earlier data.
        """
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

    def sent(self, host: str) -> object:
        """A host sends something that is no end of a stream. Returns what `took` gets when it is taken."""
        return None

    def took(self, host: str, sent: object) -> None:
        """A host takes what another one has sent, before it handles that."""

    def over(self, stream: Stream) -> None:
        """Both ends of the stream are closed: remove it, so that faults no longer reach it."""
        self.streams.pop(stream, None)

    def bind(self, address: str, server: Server) -> str:
        """Register a server under an address and return the address; port 0 becomes a free one. Raises
        `TransportError` if the address is in use."""
        host, _, port = address.rpartition(":")
        if port == "0":
            self._ports += 1
            address = f"{host}:{self._ports}"
        if address in self.servers:
            raise TransportError(f"cannot listen on {address}: it is in use")
        self.servers[address] = server
        return address

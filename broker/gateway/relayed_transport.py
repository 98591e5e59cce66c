"""At the primary: the transport of a client whose socket is at another node."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..connection.connection import GATEWAY_STOPPED, SHUTTING_DOWN
from ..connection.transport import CLOSE_BOUND_S, PEER_CLOSED, ConnectionPort
from ..environment import Environment
from ..timers import Timer
from .credit import Window
from .messages import FROM_PRIMARY, OPENED, RECALL, ROOM
from .outflow import Outflow
from .peer import PeerNode


def ended_by(reason: str) -> str:
    """How this node names the end of a connection for which its gateway gives this reason.

    A gateway that stops says that it stops. For this node that is another end than its own stop (H-39).
    """
    return GATEWAY_STOPPED if reason == SHUTTING_DOWN else reason or PEER_CLOSED


class RelayedTransport:
    """A `ClientTransport` through the tunnel to `peer`; `forget` is called with it when it has ended.

    `slot` and `epoch` are those of the client id when the connection was opened. Call `hand_over` with the port before
    the first bytes arrive. Input that arrives while reading is paused waits here; credit bounds it.
    """

    __slots__ = (
        "_arrived", "_closing", "_env", "_forget", "_full", "_gone", "_over", "_paused", "_port", "_timer", "epoch",
        "out", "slot", "window",
    )  # fmt: skip

    def __init__(
        self,
        env: Environment,
        peer: PeerNode,
        number: int,
        place: tuple[int, int],
        forget: Callable[[RelayedTransport], None],
    ) -> None:
        self.slot, self.epoch = place
        self.out = Outflow(peer, number, FROM_PRIMARY, self._out_free)
        self.window = Window(peer.room_up)
        self._env = env
        self._forget = forget
        self._port: ConnectionPort
        self._arrived: deque[bytes] = deque()
        self._paused = self._full = self._closing = self._over = False
        self._gone = ""
        self._timer: Timer | None = None

    @property
    def gone_for(self) -> str:
        """As `ClientTransport.gone_for`: GONE has arrived. Bytes before it wait, for example, for a full disk."""
        return self._gone

    # -- calls of the core

    def write(self, data: bytes, /) -> None:
        """As `ClientTransport.write`: bytes without credit wait here."""
        if self._closing:
            return
        self.out.write(data)
        if self.out.stuck and not self._full:
            self._full = True
            self._port.writable(False)

    def close(self) -> None:
        """As `ClientTransport.close`: the end follows the written bytes."""
        if not self._closing:
            self._closing = True
            self._arrived.clear()
            self._timer = self._env.timers.at(self._env.now + int(CLOSE_BOUND_S * 1000), self._overdue)
            self.out.end("closed")

    def abort(self) -> None:
        """As `ClientTransport.abort`."""
        if not self._over:
            self._closing = True
            self.out.drop()
            self.out.end("aborted")

    def pause_reading(self) -> None:
        """As `ClientTransport.pause_reading`: without credit the gateway stops reading the socket."""
        self._paused = True

    def resume_reading(self) -> None:
        """As `ClientTransport.resume_reading`."""
        if self._paused:
            self._paused = False
            if self._arrived or self._gone:
                self._env.after_turn(self._drain)

    def accepted(self) -> None:
        """As `ClientTransport.accepted`: the gateway does this with OPENED."""

    def watch_silence(self, limit_ms: int, /) -> bool:
        """As `ClientTransport.watch_silence`: the gateway measures the silence from the bytes that it reads (H-34)."""
        self.out.peer.say(OPENED | FROM_PRIMARY, self.out.number, limit_ms)
        return True

    def hand_over(self, port: ConnectionPort, /) -> None:
        """As `ClientTransport.hand_over`."""
        self._port = port

    # -- messages of the gateway

    def received(self, data: bytes) -> None:
        """Bytes of the client arrived. Raises `Overrun`."""
        if self._closing:
            return
        self.window.received(len(data))
        if self._paused or self._arrived:
            self._arrived.append(data)
        else:
            self._pass(data)

    def gone(self, reason: str) -> None:
        """The client's connection to the gateway has ended: tell the port after the bytes that arrived before."""
        self._gone = ended_by(reason)
        self.out.drop()
        if not self._arrived or self._closing:
            self._lost(self._gone)

    def broken(self) -> None:
        """The tunnel is broken: nothing of the client arrives any more.

        If GONE has arrived, so has all that was before it, and the connection ends when that is handled (H-19).
        """
        self.out.drop()
        if not self._gone or self._closing:
            self._lost("gateway_lost")

    def left(self) -> None:
        """The gateway has left the view."""
        if not self._gone:
            self.abort()
        self.broken()

    def grow(self) -> bool:
        """The gateway has used up its credit. Returns whether it got more."""
        more = 0 if self._closing else self.window.grow()
        self._grant(more)
        return more > 0

    def recall(self) -> bool:
        """Ask for unused credit. Returns whether the window is still larger than at first."""
        asked = self.window.recall()
        if asked:
            self.out.peer.say(RECALL | FROM_PRIMARY, self.out.number, asked)
        return self.window.grown

    # -- inside

    def _pass(self, data: bytes) -> None:
        self._port.receive(data)
        self._grant(self.window.passed(len(data)))

    def _grant(self, size: int) -> None:
        if size and not self._closing and not self._gone:
            self.out.peer.say(ROOM | FROM_PRIMARY, self.out.number, size)

    def _drain(self) -> None:
        while self._arrived and not self._paused and not self._closing:
            data = self._arrived[0]
            self._port.receive(data)
            if self._arrived:
                self._arrived.popleft()
            self._grant(self.window.passed(len(data)))
        if self._gone and not self._arrived and not self._paused:
            self._lost(self._gone)

    def _out_free(self) -> None:
        """All bytes are sent. If this is the end, GONE is sent too."""
        if self._closing:
            self._env.after_turn(lambda: self._lost("closed"))
        elif self._full:
            self._full = False
            self._port.writable(True)

    def _overdue(self) -> None:
        self.abort()

    def _lost(self, reason: str) -> None:
        if self._over:
            return
        self._over = self._closing = True
        self._env.timers.cancel(self._timer)
        self._arrived.clear()
        self.window.close()
        self._forget(self)
        self._port.lost(reason)

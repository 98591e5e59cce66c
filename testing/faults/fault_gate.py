"""The gate between a node's listeners and its core: where packets are dropped and a node is paused or cut off.

It wraps the function that makes fronts (`Node.accept`): outside the gate is a connection, inside is a front, and each
sees the gate as the other. What comes from other nodes (`faulty.py`) and the timers of the cluster pass it as well.
Nothing of the broker is changed for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from ...broker.connection.connection import ClientConnection
from ...broker.connection.transport import ClientTransport, ConnectionOrigin, ConnectionPort
from ...broker.listeners.connection import Connection
from ..runtime.idle import IdleDetector
from .frame_filter import FrameFilter
from .packet_drops import Drop


class FaultGate:
    """All passages of one boot of a node. `make_front` is the core's; `reset` closes a connection with a TCP reset."""

    def __init__(
        self,
        make_front: Callable[[ClientTransport, ConnectionOrigin], ClientConnection],
        reset: Callable[[Connection], None],
        activity: IdleDetector,
        drops: list[Drop],
    ) -> None:
        self.make_front = make_front
        self.reset = reset
        self.activity = activity
        self.drops = drops
        self.suback_left: Callable[[str], None] = lambda client: None
        """Told of each SUBACK that goes out to a client."""
        self.connack_left: Callable[[ClientConnection], None] = lambda connection: None
        """Told of each CONNACK that goes out."""
        self.frozen = False
        self.dead = False
        self.connections: dict[int, GatedConnection] = {}
        self._held: list[Callable[[], None]] = []

    def accept(self, link: ClientTransport, origin: ConnectionOrigin) -> ConnectionPort:
        """A connection was made: what the listener takes for its front."""
        connection = GatedConnection(self, link)
        self.connections[id(connection)] = connection
        self.when_awake(partial(connection.open, origin))
        return connection

    def when_awake(self, work: Callable[[], None]) -> None:
        """Do something that the node does: now, after a pause, or never if it is dead."""
        self.activity.record()
        self.due(work)

    def due(self, work: Callable[[], None]) -> None:
        """The same for what only time has brought about, which is no sign that anything goes on."""
        if self.dead:
            return
        if self.frozen:
            self._held.append(work)
        else:
            work()

    def freeze(self) -> None:
        """The node stands still."""
        self.frozen = True

    def thaw(self) -> None:
        """The node goes on, with what came meanwhile first."""
        self.frozen = False
        held, self._held = self._held, []
        self.activity.record()
        for work in held:
            self.due(work)

    def cut(self) -> None:
        """The node is dead: its core hears nothing any more, its clients get a reset."""
        self.dead = True
        self._held.clear()
        for connection in list(self.connections.values()):
            connection.reset()

    def drops_now(self, packet: str, direction: str, connection: GatedConnection) -> bool:
        """Ask all faults; each counts for itself."""
        hit = [drop for drop in self.drops if drop.hits(packet, direction, connection.client_id)]
        if any(drop.then == "cut" for drop in hit):
            connection.tear()
        if packet == "SUBACK" and direction == "out" and not hit:
            self.suback_left(connection.client_id)
        if packet == "CONNACK" and direction == "out" and not hit and connection.connection is not None:
            self.connack_left(connection.connection)
        return bool(hit)


class GatedTimer:
    """A timer of the node: what is due while it stands still is done when it goes on, unless cancelled by then."""

    def __init__(
        self, gate: FaultGate, loop: asyncio.AbstractEventLoop, delay_s: float, work: Callable[[], None]
    ) -> None:
        self._work: Callable[[], None] | None = work
        self._handle = loop.call_later(delay_s, gate.due, self._due)

    def _due(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            work()

    def cancel(self) -> None:
        """Do not do it."""
        self._work = None
        self._handle.cancel()


class GatedConnection:
    """One connection's way through the gate: the front's link and the connection's front."""

    def __init__(self, gate: FaultGate, link: ClientTransport) -> None:
        self._gate = gate
        self._link = link
        self.connection: ClientConnection | None = None
        """What of the node has the connection, once it has noticed it."""
        self._in = FrameFilter(lambda packet: not gate.drops_now(packet, "in", self))
        self._out = FrameFilter(lambda packet: not gate.drops_now(packet, "out", self))
        self._torn = False
        self._cut = False

    def open(self, origin: ConnectionOrigin) -> None:
        """The node notices the connection."""
        self.connection = self._gate.make_front(self, origin)

    @property
    def client_id(self) -> str:
        """The client id, empty before CONNECT."""
        return self.connection.client_id if self.connection is not None else ""

    @property
    def bytes_unsent(self) -> int:
        """Bytes that the system has not taken yet, because the peer does not read."""
        transport = self._link.transport if isinstance(self._link, Connection) else None
        return transport.get_write_buffer_size() if transport is not None else 0

    def reset(self) -> None:
        """Close the connection with a TCP reset; nothing more passes."""
        self._cut = True
        if isinstance(self._link, Connection):
            self._gate.reset(self._link)

    def tear(self) -> None:
        """The packet that is asked about is dropped, and the connection with it; what came before it still passes."""
        self._torn = True
        self._in.end()
        self._out.end()

    def _tear(self) -> None:
        if not self._torn or self._cut:
            return
        self._cut = True
        if isinstance(self._link, Connection):
            # a turn later: some loops hand to the system only at the end of a turn what was written in it
            asyncio.get_running_loop().call_soon(self._gate.reset, self._link)

    # -- the connection's side

    def receive(self, data: bytes, /) -> None:
        """As `ConnectionPort.receive`."""
        self._gate.when_awake(partial(self._receive, data))

    def _receive(self, data: bytes) -> None:
        passing = self._in.feed(data)
        if passing and not self._cut and self.connection is not None:
            self.connection.receive(passing)
        self._tear()

    def lost(self, reason: str, /) -> None:
        """As `ConnectionPort.lost`."""
        self._gate.when_awake(partial(self._lost, reason))
        self._gate.connections.pop(id(self), None)

    def _lost(self, reason: str) -> None:
        if self.connection is not None:
            self.connection.lost(reason)

    def writable(self, flag: bool, /) -> None:
        """As `ConnectionPort.writable`."""
        self._gate.when_awake(partial(self._writable, flag))

    def _writable(self, flag: bool) -> None:
        if self.connection is not None:
            self.connection.writable(flag)

    # -- the front's side

    def write(self, data: bytes, /) -> None:
        """As `ClientTransport.write`."""
        self._gate.when_awake(partial(self._write, data))

    def _write(self, data: bytes) -> None:
        passing = self._out.feed(data)
        if passing and not self._cut:
            self._link.write(passing)
        self._tear()

    def close(self) -> None:
        """As `ClientTransport.close`."""
        self._gate.when_awake(self._link.close)

    def abort(self) -> None:
        """As `ClientTransport.abort`."""
        self._gate.when_awake(self._link.abort)

    def pause_reading(self) -> None:
        """As `ClientTransport.pause_reading`."""
        self._gate.when_awake(self._link.pause_reading)

    def resume_reading(self) -> None:
        """As `ClientTransport.resume_reading`."""
        self._gate.when_awake(self._link.resume_reading)

    def accepted(self) -> None:
        """As `ClientTransport.accepted`."""
        self._gate.when_awake(self._link.accepted)

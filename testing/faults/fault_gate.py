"""The gate between a node's listeners and its core. It drops packets, pauses the node, and cuts it off.

It wraps `Node.accept`, the function that makes a `ClientConnection`. The listener calls the gate in place of the
`ClientConnection`, and the `ClientConnection` calls the gate in place of its transport. Frames from other nodes
(`faulty_transport.py`) and the timers of the cluster pass the gate as well. The broker's code is unchanged.
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
    """The gate of one boot of a node.

    `make_connection` is the core's function for a new connection; `reset` closes a connection with a TCP reset.
    """

    def __init__(
        self,
        make_connection: Callable[[ClientTransport, ConnectionOrigin], ClientConnection],
        reset: Callable[[Connection], None],
        activity: IdleDetector,
        drops: list[Drop],
    ) -> None:
        self.make_connection = make_connection
        self.reset = reset
        self.activity = activity
        self.drops = drops
        self.frozen = False
        self.dead = False
        self.connections: dict[int, GatedConnection] = {}
        self._held: list[Callable[[], None]] = []

    def accept(self, link: ClientTransport, origin: ConnectionOrigin) -> ConnectionPort:
        """Returns the object that the listener calls in place of the `ClientConnection` of a new connection."""
        connection = GatedConnection(self, link)
        self.connections[id(connection)] = connection
        self.when_awake(partial(connection.open, origin))
        return connection

    def when_awake(self, work: Callable[[], None]) -> None:
        """Count an activity, and call `work`: now, after the pause if the node is paused, or never if it is dead."""
        self.activity.record()
        self.due(work)

    def due(self, work: Callable[[], None]) -> None:
        """As `when_awake`, for a timer that fires: a timer does not count as activity."""
        if self.dead:
            return
        if self.frozen:
            self._held.append(work)
        else:
            work()

    def freeze(self) -> None:
        """Pause the node: hold all its work until `thaw`."""
        self.frozen = True

    def thaw(self) -> None:
        """End the pause: do the held work first, in order."""
        self.frozen = False
        held, self._held = self._held, []
        self.activity.record()
        for work in held:
            self.due(work)

    def cut(self) -> None:
        """Kill the node: drop all work from now on, and reset the connections of its clients."""
        self.dead = True
        self._held.clear()
        for connection in list(self.connections.values()):
            connection.reset()

    def drops_now(self, packet: str, direction: str, connection: GatedConnection) -> bool:
        """Whether a fault drops this packet. Every fault counts the packet."""
        hit = [drop for drop in self.drops if drop.hits(packet, direction, connection.client_id)]
        if any(drop.then == "cut" for drop in hit):
            connection.tear()
        return bool(hit)


class GatedTimer:
    """A timer of the node. If it fires during a pause, its work is done after the pause, unless cancelled before."""

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
        """Cancel the timer, also if it has fired and its work is held by a pause."""
        self._work = None
        self._handle.cancel()


class GatedConnection:
    """One client connection at the gate.

    The listener uses it as a `ConnectionPort`, the `ClientConnection` as a `ClientTransport`.
    """

    def __init__(self, gate: FaultGate, link: ClientTransport) -> None:
        self._gate = gate
        self._link = link
        self.connection: ClientConnection | None = None
        """The node's side; None until the node has accepted the connection, which a pause delays."""
        self._port: ConnectionPort | None = None
        self._in = FrameFilter(lambda packet: not gate.drops_now(packet, "in", self))
        self._out = FrameFilter(lambda packet: not gate.drops_now(packet, "out", self))
        self._torn = False
        self._cut = False

    def open(self, origin: ConnectionOrigin) -> None:
        """Make the node's side of the connection."""
        self.connection = self._gate.make_connection(self, origin)
        self._port = self._port or self.connection

    @property
    def client_id(self) -> str:
        """The client id, empty before CONNECT."""
        return self.connection.client_id if self.connection is not None else ""

    @property
    def bytes_unsent(self) -> int:
        """Bytes that wait in the transport's buffer, because the peer does not read."""
        transport = self._link.transport if isinstance(self._link, Connection) else None
        return transport.get_write_buffer_size() if transport is not None else 0

    def reset(self) -> None:
        """Close the connection with a TCP reset, and drop everything that follows."""
        self._cut = True
        if isinstance(self._link, Connection):
            self._gate.reset(self._link)

    def tear(self) -> None:
        """Drop the present packet and all later ones, then reset the connection. Earlier packets still pass."""
        self._torn = True
        self._in.end()
        self._out.end()

    def _tear(self) -> None:
        if not self._torn or self._cut:
            return
        self._cut = True
        if isinstance(self._link, Connection):
            # in the next turn: some loops write a turn's data to the socket only at the end of the turn
            asyncio.get_running_loop().call_soon(self._gate.reset, self._link)

    # -- called by the listener

    def receive(self, data: bytes, /) -> None:
        """Pass on bytes from the client, without dropped packets (`ConnectionPort.receive`)."""
        self._gate.when_awake(partial(self._receive, data))

    def _receive(self, data: bytes) -> None:
        passing = self._in.feed(data)
        if passing and not self._cut and self._port is not None:
            self._port.receive(passing)
        self._tear()

    def lost(self, reason: str, /) -> None:
        """Pass on the end of the connection (`ConnectionPort.lost`)."""
        self._gate.when_awake(partial(self._lost, reason))
        self._gate.connections.pop(id(self), None)

    def _lost(self, reason: str) -> None:
        if self._port is not None:
            self._port.lost(reason)

    def writable(self, flag: bool, /) -> None:
        """Pass on whether the transport takes more data (`ConnectionPort.writable`)."""
        self._gate.when_awake(partial(self._writable, flag))

    def _writable(self, flag: bool) -> None:
        if self._port is not None:
            self._port.writable(flag)

    # -- called by the ClientConnection

    def write(self, data: bytes, /) -> None:
        """Send bytes to the client, without dropped packets (`ClientTransport.write`)."""
        self._gate.when_awake(partial(self._write, data))

    def _write(self, data: bytes) -> None:
        passing = self._out.feed(data)
        if passing and not self._cut:
            self._link.write(passing)
        self._tear()

    def close(self) -> None:
        """Send the written bytes, then close (`ClientTransport.close`)."""
        self._gate.when_awake(self._link.close)

    def abort(self) -> None:
        """Close at once (`ClientTransport.abort`)."""
        self._gate.when_awake(self._link.abort)

    @property
    def gone_for(self) -> str:
        """Always "": the node reads the last bytes before it notices the end (`ClientTransport.gone_for`)."""
        return ""

    def pause_reading(self) -> None:
        """Stop reading from the client (`ClientTransport.pause_reading`)."""
        self._gate.when_awake(self._link.pause_reading)

    def resume_reading(self) -> None:
        """Read from the client again (`ClientTransport.resume_reading`)."""
        self._gate.when_awake(self._link.resume_reading)

    def accepted(self) -> None:
        """Report that the client is accepted (`ClientTransport.accepted`)."""
        self._gate.when_awake(self._link.accepted)

    def watch_silence(self, _limit_ms: int, /) -> bool:
        """The core measures the silence of the client (`ClientTransport.watch_silence`)."""
        return False

    def hand_over(self, port: ConnectionPort, /) -> None:
        """From now on this port gets what comes from the client (`ClientTransport.hand_over`)."""
        self._port = port

"""A connection between a model client and a node: two streams of bytes on virtual time.

Bytes arrive in order, after a random delay, and may be joined or split anywhere, as with TCP. When one side has ended,
bytes in flight to it are lost. If a receiver does not read, bytes wait; the sender is told when too many wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random

from ...broker.connection.transport import PEER_CLOSED, ConnectionPort
from .loop import VirtualLoop

Receiver = Callable[[bytes], None]
Mark = tuple[int, float, bool]
"""The state at the time of sending: the number of commits on all disks, the time in s, and whether the sender had no
lease."""
NO_MARK: Mark = (0, 0.0, False)
HIGH_MARK = 4096
"""The number of waiting bytes above which the sender is asked to stop."""


class Stream:
    """One direction of a connection.

    `deliver` gets the bytes that arrive; `ended` is called once after the last byte. `pressure` gets False when more
    than `HIGH_MARK` bytes wait, and True when none wait any more. `mark` is called at each send; during `deliver`,
    `arrived` has its result. `under_way` counts the bytes sent and not delivered. `delay_s` is the range of the delay
    in seconds.
    """

    def __init__(self, loop: VirtualLoop, rng: Random, delay_s: tuple[float, float]) -> None:
        self._loop = loop
        self._rng = rng
        self.delay_s = delay_s
        self._last_s = 0.0
        self._held: deque[tuple[bytes, Mark]] = deque()
        self._held_bytes = 0
        self._paused = False
        self._pressed = False
        self._end_held = False
        self.open = True
        self.under_way = 0
        self.deliver: Receiver | None = None
        self.ended: Callable[[], None] | None = None
        self.pressure: Callable[[bool], None] | None = None
        self.mark: Callable[[], Mark] | None = None
        self.arrived: Mark = NO_MARK

    def _when(self) -> float:
        low, high = self.delay_s
        arrival = self._loop.now_s + low + (high - low) * self._rng.random()
        self._last_s = max(self._last_s, arrival)
        return self._last_s

    def send(self, data: bytes) -> None:
        """Send bytes, sometimes in two pieces."""
        self.under_way += len(data)
        if not self.open:
            return
        mark = NO_MARK if self.mark is None else self.mark()
        if len(data) > 1 and self._rng.random() < 0.1:
            cut = self._rng.randrange(1, len(data))
            self._loop.call_at(self._when(), partial(self._arrive, data[:cut], mark))
            data = data[cut:]
        self._loop.call_at(self._when(), partial(self._arrive, data, mark))

    def end(self) -> None:
        """Close in order: sent bytes still arrive, then `ended` is called."""
        if self.open:
            self._loop.call_at(self._when(), self._arrive_end)

    def cut(self) -> None:
        """Drop all bytes from now on, including those in flight."""
        self.open = False

    @property
    def paused(self) -> bool:
        """Whether the receiver does not read."""
        return self._paused

    def pause(self) -> None:
        """Stop reading: bytes wait in the network."""
        self._paused = True

    def resume(self) -> None:
        """Read again, from the next turn on."""
        if self._paused:
            self._paused = False
            if self._held or self._end_held:
                self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        held = self._held
        while held and self.open and not self._paused:
            data, mark = held.popleft()
            self._held_bytes -= len(data)
            self._deliver(data, mark)
        if not self.open or self._paused:
            return
        if self._pressed:
            self._pressed = False
            if self.pressure is not None:
                self.pressure(True)
        if self._end_held:
            self._end_held = False
            self._arrive_end()

    def _arrive(self, data: bytes, mark: Mark) -> None:
        if not self.open:
            return
        if not self._paused and not self._held:
            self._deliver(data, mark)
            return
        self._held.append((data, mark))
        self._held_bytes += len(data)
        if self._held_bytes > HIGH_MARK and not self._pressed:
            self._pressed = True
            if self.pressure is not None:
                self.pressure(False)

    def _deliver(self, data: bytes, mark: Mark) -> None:
        self.arrived = mark
        self.under_way -= len(data)
        if self.deliver is not None:
            self.deliver(data)

    def _arrive_end(self) -> None:
        if not self.open:
            return
        if self._paused or self._held:
            self._end_held = True
            return
        self.open = False
        if self.ended is not None:
            self.ended()


class Pipe:
    """Both directions, and the node's end as a `broker.connection.transport.ClientTransport`.

    `port` gets the bytes. `gone` gets the reason once, when the connection has ended for the node. `over_at` is the
    time of that end, in seconds: None while the connection is open, and if the node was killed.
    """

    def __init__(self, loop: VirtualLoop, rng: Random, delay_s: tuple[float, float] = (0.0, 0.0)) -> None:
        self._loop = loop
        self.to_node = Stream(loop, rng, delay_s)
        self.to_client = Stream(loop, rng, delay_s)
        self.write = self.to_client.send
        self.gone: Callable[[str], None] | None = None
        self.port: ConnectionPort | None = None
        self.over_at: float | None = None
        self._closed = False
        self.to_node.ended = partial(self._lost, PEER_CLOSED)

    def _lost(self, reason: str) -> None:
        gone, self.gone = self.gone, None
        if gone is not None:
            self._over()
            gone(reason)

    def _over(self) -> None:
        if self.over_at is None:
            self.over_at = self._loop.now_s

    def close(self) -> None:
        """Close the node's end: written bytes still arrive."""
        self._closed = True
        self.to_client.end()
        self.to_node.cut()
        if self.gone is not None:
            self._over()
            self._loop.call_soon(partial(self._lost, "closed"))

    def abort(self) -> None:
        """Close the node's end at once."""
        self.close()

    @property
    def gone_for(self) -> str:
        """Always "": the node reads the last bytes before it notices the end."""
        return ""

    def pause_reading(self) -> None:
        """Stop reading at the node."""
        self.to_node.pause()

    def resume_reading(self) -> None:
        """Read again at the node."""
        self.to_node.resume()

    def accepted(self) -> None:
        """The node has accepted the client: no effect here."""

    def watch_silence(self, _limit_ms: int, /) -> bool:
        """The node measures the silence of the client itself."""
        return False

    def hand_over(self, port: ConnectionPort) -> None:
        """From now on this port gets the events of the node's end."""
        self.port = port

    def receive(self, data: bytes) -> None:
        """Bytes of the client arrived. A closed socket gives the process nothing, also if they arrived before."""
        assert self.port is not None
        if not self._closed:
            self.port.receive(data)

    def break_off(self) -> None:
        """Break the connection, as a fault of the network: bytes in flight are lost, and both ends are told."""
        told = [self.to_client.ended] if self.to_client.open else []
        self.to_node.cut()
        self.to_client.cut()
        self._lost("connection_reset")
        for ended in told:
            if ended is not None:
                ended()

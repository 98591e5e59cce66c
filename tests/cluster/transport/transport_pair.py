"""For tests of the memory transport: two hosts on virtual time."""

from __future__ import annotations

from strogoff.cluster.transport.memory_network import MemoryNetwork
from strogoff.cluster.transport.memory_wire import MemoryTransport
from strogoff.cluster.transport.wire import Accepted, Wire
from strogoff.sim.engine.loop import VirtualLoop


class RecordingEvents:
    """`WireEvents` that records its calls."""

    def __init__(self) -> None:
        self.wire: Wire | None = None
        self.frames: list[bytes] = []
        self.reason: str | None = None

    def opened(self, wire: Wire, welcome: bytes) -> None:
        assert self.wire is None
        self.wire = wire

    def received(self, frame: bytes) -> None:
        assert self.reason is None
        self.frames.append(frame)

    def drained(self) -> None:
        pass

    def data_drained(self) -> None:
        pass

    def closed(self, reason: str) -> None:
        assert self.reason is None
        self.reason = reason

    def say(self, frame: bytes) -> None:
        assert self.wire is not None
        self.wire.send(frame)


class TransportPair:
    """Hosts a and b; b listens."""

    def __init__(self, notice_s: float = 1.0) -> None:
        self.loop = VirtualLoop()
        self.network = MemoryNetwork(self.loop.call_soon, self.loop.call_later, notice_s)
        self.a = MemoryTransport(self.network, "a")
        self.b = MemoryTransport(self.network, "b")
        self.accepted: list[RecordingEvents] = []
        self.address = self.b.listen("b:0", self._accept)

    def _accept(self, hello: bytes, wire: Wire) -> Accepted:
        ear = RecordingEvents()
        ear.wire = wire
        self.accepted.append(ear)
        return Accepted(b"", ear)

    def dial(self) -> RecordingEvents:
        """a dials b."""
        ear = RecordingEvents()
        self.a.dial(self.address, b"", ear)
        return ear

    def joined(self) -> tuple[RecordingEvents, RecordingEvents]:
        """Returns both ends of one open stream."""
        ear = self.dial()
        self.loop.settle()
        return ear, self.accepted[-1]

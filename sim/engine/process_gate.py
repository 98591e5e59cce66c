"""Gates hold the input of a suspended process (SIGSTOP, a frozen machine), and deliver it in order after the
suspension."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from ...cluster.transport.memory_network import Answer, Handler, Later, MemoryNetwork, Soon
from ...cluster.transport.memory_stream import Path, Stream
from ...cluster.transport.memory_wire import MemoryTransport
from ...cluster.transport.wire import Accept, Accepted, Refused, Wire, WireEvents
from ...storage.engine import Batch, Done, Engine

Step = Callable[..., None]


class ProcessGate:
    """The gate for all input of one machine's process. `soon` is `call_soon` of the loop."""

    def __init__(self, soon: Soon) -> None:
        self._soon = soon
        self._held: deque[Step] = deque()
        self._due: deque[Step] = deque()
        self.shut = False
        self.sockets_first = False
        """Whether a process handles sockets before timers after a suspension."""
        self.process = 0
        """The number of the present process: an event for one process must not reach the next."""

    def enter(self, step: Step, *arguments: object) -> None:
        """Run a step now, or after the suspension."""
        if self.shut:
            self._held.append(partial(step, *arguments))
        else:
            step(*arguments)

    def enter_timer(self, step: Step) -> None:
        """As `enter`, for a timer."""
        if self.shut and self.sockets_first:
            self._due.append(step)
        else:
            self.enter(step)

    def enter_if(self, process: int, step: Step, *arguments: object) -> None:
        """As `enter`, but only if `process` is still the present one."""
        if process != self.process:
            return
        if self.shut:
            self._held.append(partial(step, *arguments))
        else:
            step(*arguments)

    def stop(self) -> None:
        """Suspend the process."""
        self.shut = True

    def go_on(self) -> None:
        """End the suspension: run everything that waited, one step in each turn."""
        self.shut = False
        held, self._held = [*self._held, *self._due], deque()
        self._due.clear()
        for step in held:
            self._soon(partial(self.enter_if, self.process, step))

    def forget(self) -> None:
        """Drop everything that waits: the process has ended."""
        self.shut = False
        self.process += 1
        self._held.clear()
        self._due.clear()


class GatedEngine:
    """A disk that works while the process is suspended. `done` of a write is called after the suspension."""

    def __init__(self, engine: Engine, gate: ProcessGate) -> None:
        self._engine = engine
        self._gate = gate
        self._process = gate.process
        self.get = engine.get
        self.scan = engine.scan
        self.keys = engine.keys
        self.close = engine.close
        self.durability = engine.durability

    def write(self, batch: Batch, done: Done) -> None:
        """Write a batch (`Engine.write`)."""
        self._engine.write(batch, partial(self._gate.enter_if, self._process, done))


class _Events:
    def __init__(self, events: WireEvents, gate: ProcessGate) -> None:
        self._events = events
        self._enter = partial(gate.enter_if, gate.process)

    def opened(self, wire: Wire, welcome: bytes) -> None:
        self._enter(self._events.opened, wire, welcome)

    def received(self, frame: bytes) -> None:
        self._enter(self._events.received, frame)

    def drained(self) -> None:
        self._enter(self._events.drained)

    def data_drained(self) -> None:
        self._enter(self._events.data_drained)

    def closed(self, reason: str) -> None:
        self._enter(self._events.closed, reason)


class GatedTransport(MemoryTransport):
    """A host's end of the network behind its gate. Incoming streams and calls wait in `GatedNetwork`."""

    def __init__(self, network: MemoryNetwork, host: str, gate: ProcessGate) -> None:
        super().__init__(network, host)
        self._gate = gate
        self._enter = partial(gate.enter_if, gate.process)

    def dial(self, address: str, hello: bytes, events: WireEvents) -> Stream:
        """Open a stream, as `Transport.dial`. The gate passes on its events."""
        return super().dial(address, hello, _Events(events, self._gate))

    def listen(self, address: str, accept: Accept, handler: Handler | None = None) -> str:
        """Listen on an address (`MemoryTransport.listen`); events of streams pass the gate."""

        def accepting(hello: bytes, wire: Wire) -> Accepted | Refused:
            verdict = accept(hello, wire)
            if isinstance(verdict, Accepted):
                return Accepted(verdict.welcome, _Events(verdict.events, self._gate))
            return verdict

        return super().listen(address, accepting, handler)

    def ask(self, address: str, method: str, request: bytes, timeout_s: float, answer: Answer) -> None:
        """Make a call (`MemoryTransport.ask`); its answer passes the gate."""
        super().ask(address, method, request, timeout_s, partial(self._enter, answer))


class GatedNetwork(MemoryNetwork):
    """A network whose hosts may be suspended: messages to them wait in their gates. `gates` is by host name."""

    def __init__(self, soon: Soon, later: Later) -> None:
        super().__init__(soon, later)
        self.gates: dict[str, ProcessGate] = {}

    def send(self, path: Path, step: Step, size: int = 0, data: bool = False) -> None:
        """Send a message (`MemoryNetwork.send`); it passes the gate of the receiver."""
        super().send(path, partial(self.gates[path[1]].enter, step), size, data)

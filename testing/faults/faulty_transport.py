"""A node's transport in a cluster under test: any transport, with the cluster's cuts, and with the node's own gate.

What comes for a node that stands still waits at its gate; what comes for one that is dead is lost. The contract is that
of `cluster/transport/wire.py`, towards the node and towards the transport below.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from ...cluster.links.frames import MalformedFrame
from ...cluster.links.hello import decode_hello
from ...cluster.transport.wire import Accept, Accepted, CallFailed, Calls, Dialing, Refused, Transport, Wire, WireEvents
from .fault_gate import FaultGate
from .network_faults import NetworkFaults


class FaultyTransport:
    """The transport of node `me`; `numbers` gives the others' by name. `gate` is that of the node's present boot."""

    def __init__(
        self, inner: Transport, me: int, numbers: dict[str, int], network_faults: NetworkFaults, gate: FaultGate
    ) -> None:
        self.inner = inner
        self.me = me
        self.network_faults = network_faults
        self.gate = gate
        self._numbers = numbers

    def dial(self, address: str, hello: bytes, events: WireEvents) -> Dialing:
        """As `Transport.dial`."""
        peer = self.network_faults.addresses.get(address)
        end = _End(self, peer, events)
        if self.network_faults.answers(self.me, peer):
            end.dialing = self.inner.dial(address, hello, end)
        else:
            end.give_up_after(self.network_faults.dial_s)
        return end

    async def serve(self, address: str, accept: Accept, calls: Calls | None = None) -> str:
        """As `Transport.serve`."""

        def gated(hello: bytes, wire: Wire) -> Accepted | Refused:
            if self.gate.frozen or self.gate.dead:
                return Refused("the node stands still")
            end = _End(self, self._who(hello))
            end.wire = wire
            verdict = accept(hello, end)
            if isinstance(verdict, Refused):
                end.forget()
                return verdict
            end.events = verdict.events
            return Accepted(verdict.welcome, end)

        bound = await self.inner.serve(address, gated, None if calls is None else self._gated_calls(calls))
        self.network_faults.addresses[bound] = self.me
        return bound

    def _who(self, hello: bytes) -> int | None:
        try:
            return self._numbers.get(decode_hello(hello).node)
        except MalformedFrame:
            return None  # the node itself says what is wrong with it

    def _gated_calls(self, calls: Calls) -> Calls:
        async def answer(method: str, request: bytes) -> bytes:
            awake = asyncio.get_running_loop().create_future()
            self.gate.when_awake(partial(awake.set_result, None))
            await awake
            return await calls(method, request)

        return answer

    async def call(self, address: str, method: str, request: bytes, timeout_s: float) -> bytes:
        """As `Transport.call`."""
        if self.network_faults.answers(self.me, self.network_faults.addresses.get(address)):
            return await self.inner.call(address, method, request, timeout_s)
        await asyncio.sleep(timeout_s)
        raise CallFailed(f"no answer from {address} in {timeout_s:g} s")

    async def close(self) -> None:
        """As `Transport.close`."""
        for end in list(self.network_faults.ends):
            if isinstance(end, _End) and end.transport is self:
                end.forget()
        await self.inner.close()


class _End:
    """One end of a stream: a wire and a dial for the node, the events of both for the transport."""

    def __init__(self, transport: FaultyTransport, peer: int | None, events: WireEvents | None = None) -> None:
        self.transport = transport
        self.nodes = (transport.me, peer)
        self.events = events
        self.wire: Wire | None = None
        self.dialing: Dialing | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[tuple[bytes, bool]] = []
        """Frames, and whether they are data."""
        self._farewell: str | None = None
        self._over = False
        """The node hears nothing any more."""
        transport.network_faults.ends[self] = None

    def forget(self) -> None:
        """Nothing comes of it any more."""
        self._over = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
        self.transport.network_faults.ends.pop(self, None)

    @property
    def _deaf(self) -> bool:
        """What goes from here to the peer does not arrive."""
        return self.transport.network_faults.is_cut(*self.nodes)

    # -- the cluster's lines

    def healed(self) -> None:
        """As `StreamEnd.healed`."""
        waiting, self._waiting = self._waiting, []
        for frame, data in waiting:
            self._pass(frame, data)
        if self._farewell is not None:
            self._end(self._farewell)

    def broken(self, reason: str) -> None:
        """As `StreamEnd.broken`."""
        if self.wire is not None:
            over = self._over
            self._end(reason)
            if not over:
                self._over = False
                self._tell(partial(self._closed, reason))

    def _end(self, reason: str) -> None:
        if self.wire is not None:
            self.wire.close(reason)
        self.forget()

    def give_up_after(self, seconds: float) -> None:
        """A dial that nobody hears."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self._tell, partial(self._closed, "no answer to the dial"))

    # -- the node's side: Dialing and Wire

    def cancel(self) -> None:
        """As `Dialing.cancel`."""
        if self.wire is not None:
            self.close("the dial was given up")
            return
        if self.dialing is not None:
            self.dialing.cancel()
        self.forget()

    @property
    def peer(self) -> str:
        """As `Wire.peer`."""
        return self.wire.peer if self.wire is not None else "nobody"

    @property
    def queued_bytes(self) -> int:
        """As `Wire.queued_bytes`."""
        below = self.wire.queued_bytes if self.wire is not None else 0
        return below + sum([len(frame) for frame, _ in self._waiting])

    def send(self, frame: bytes) -> None:
        """As `Wire.send`; into a cut it waits."""
        self._send(frame, False)

    def send_data(self, frame: bytes) -> None:
        """As `Wire.send_data`; into a cut it waits."""
        self._send(frame, True)

    def _send(self, frame: bytes, data: bool) -> None:
        if self._over or self.wire is None:
            return
        if self._deaf:
            self._waiting.append((frame, data))
        else:
            self._pass(frame, data)

    def _pass(self, frame: bytes, data: bool) -> None:
        if self.wire is not None:
            (self.wire.send_data if data else self.wire.send)(frame)

    def close(self, reason: str) -> None:
        """As `Wire.close`; the other end does not hear of it through a cut."""
        if self._over:
            return
        if self._deaf:
            self._over = True
            self._waiting.clear()
            self._farewell = reason
        else:
            self._end(reason)

    # -- the transport's side: WireEvents

    def _tell(self, event: Callable[[], None]) -> None:
        self.transport.gate.when_awake(event)

    def opened(self, wire: Wire, welcome: bytes) -> None:
        """As `WireEvents.opened`."""
        if self._over:
            wire.close("the dial was given up")
            return
        self.wire = wire
        self._tell(partial(self._opened, welcome))

    def _opened(self, welcome: bytes) -> None:
        if not self._over and self.events is not None:
            self.events.opened(self, welcome)

    def received(self, frame: bytes) -> None:
        """As `WireEvents.received`."""
        self._tell(partial(self._received, frame))

    def _received(self, frame: bytes) -> None:
        if not self._over and self.events is not None:
            self.events.received(frame)

    def drained(self) -> None:
        """As `WireEvents.drained`."""
        self._tell(self._drained)

    def _drained(self) -> None:
        if not self._over and self.events is not None:
            self.events.drained()

    def data_drained(self) -> None:
        """As `WireEvents.data_drained`."""
        self._tell(self._data_drained)

    def _data_drained(self) -> None:
        if not self._over and self.events is not None:
            self.events.data_drained()

    def closed(self, reason: str) -> None:
        """As `WireEvents.closed`."""
        self._tell(partial(self._closed, reason))

    def _closed(self, reason: str) -> None:
        if self._over:
            return
        self.forget()
        if self.events is not None:
            self.events.closed(reason)

"""A node's transport in a cluster under test: it wraps another transport, and adds cuts and the node's `FaultGate`.

Events for a paused node wait at its gate; events for a dead node are lost. The contract towards the node and towards
the wrapped transport is that of `cluster/transport/wire.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from ...cluster.links.frames import MalformedFrame
from ...cluster.links.hello import decode_hello
from ...cluster.transport.wire import (
    Accept,
    Accepted,
    CallFailed,
    Calls,
    Dialing,
    Refused,
    Stamps,
    Transport,
    Wire,
    WireEvents,
)
from .fault_gate import FaultGate
from .network_faults import NetworkFaults


class FaultyTransport:
    """The transport of node number `me`. `numbers`: node name -> number. `gate` belongs to the node's present boot."""

    def __init__(
        self, inner: Transport, me: int, numbers: dict[str, int], network_faults: NetworkFaults, gate: FaultGate
    ) -> None:
        self.inner = inner
        self.me = me
        self.network_faults = network_faults
        self.gate = gate
        self._numbers = numbers

    def use_stamps(self, stamps: Stamps) -> None:
        """As `Transport.use_stamps`."""
        self.inner.use_stamps(stamps)

    def dial(self, address: str, hello: bytes, events: WireEvents) -> Dialing:
        """Open a stream (`Transport.dial`). Into a cut, or to a paused node, it fails after `NetworkFaults.dial_s`."""
        peer = self.network_faults.addresses.get(address)
        end = _End(self, peer, events)
        if self.network_faults.answers(self.me, peer):
            end.dialing = self.inner.dial(address, hello, end)
        else:
            end.give_up_after(self.network_faults.dial_s)
        return end

    async def serve(self, address: str, accept: Accept, calls: Calls | None = None) -> str:
        """Listen on an address (`Transport.serve`). A paused or dead node refuses streams, and delays calls."""

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
            return None  # the node itself refuses the hello and gives the reason

    def _gated_calls(self, calls: Calls) -> Calls:
        async def answer(method: str, request: bytes) -> bytes:
            awake = asyncio.get_running_loop().create_future()
            self.gate.when_awake(partial(awake.set_result, None))
            await awake
            return await calls(method, request)

        return answer

    async def call(self, address: str, method: str, request: bytes, timeout_s: float) -> bytes:
        """Call a method once (`Transport.call`). Into a cut, or to a paused node, it fails after `timeout_s`."""
        if self.network_faults.answers(self.me, self.network_faults.addresses.get(address)):
            return await self.inner.call(address, method, request, timeout_s)
        await asyncio.sleep(timeout_s)
        raise CallFailed(f"no answer from {address} in {timeout_s:g} s")

    async def close(self) -> None:
        """Close all wires, dials and servers (`Transport.close`)."""
        for end in list(self.network_faults.ends):
            if isinstance(end, _End) and end.transport is self:
                end.forget()
        await self.inner.close()


class _End:
    """One end of a stream: for the node a `Wire` and a `Dialing`, for the wrapped transport the `WireEvents`."""

    def __init__(self, transport: FaultyTransport, peer: int | None, events: WireEvents | None = None) -> None:
        self.transport = transport
        self.nodes = (transport.me, peer)
        self.events = events
        self.wire: Wire | None = None
        self.dialing: Dialing | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[tuple[bytes, bool]] = []
        """Frames that wait for the end of a cut, each with whether it is data."""
        self._farewell: str | None = None
        self._over = False
        """The node gets no more events."""
        transport.network_faults.ends[self] = None

    def forget(self) -> None:
        """Give the node no more events, and drop the frames that wait."""
        self._over = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
        self.transport.network_faults.ends.pop(self, None)

    @property
    def _deaf(self) -> bool:
        """Whether a cut blocks the direction from this node to the peer."""
        return self.transport.network_faults.is_cut(*self.nodes)

    # -- called by NetworkFaults

    def healed(self) -> None:
        """Send the frames that waited for the end of the cut; then close, if the node has closed the wire meanwhile."""
        waiting, self._waiting = self._waiting, []
        for frame, data in waiting:
            self._pass(frame, data)
        if self._farewell is not None:
            self._end(self._farewell)

    def broken(self, reason: str) -> None:
        """Close the stream after a cut of `notice_s` seconds, and give the node `closed`."""
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
        """Give the node `closed` after `seconds`: its dial gets no answer."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self._tell, partial(self._closed, "no answer to the dial"))

    # -- called by the node: Dialing and Wire

    def cancel(self) -> None:
        """Give up the dial, or close its wire (`Dialing.cancel`)."""
        if self.wire is not None:
            self.close("the dial was given up")
            return
        if self.dialing is not None:
            self.dialing.cancel()
        self.forget()

    @property
    def peer(self) -> str:
        """The name or address of the other end (`Wire.peer`)."""
        return self.wire.peer if self.wire is not None else "nobody"

    @property
    def queued_bytes(self) -> int:
        """Bytes that the network has not taken yet, with those that wait for the end of a cut (`Wire.queued_bytes`)."""
        below = self.wire.queued_bytes if self.wire is not None else 0
        return below + sum([len(frame) for frame, _ in self._waiting])

    def send(self, frame: bytes) -> None:
        """Send an urgent frame (`Wire.send`). During a cut it waits."""
        self._send(frame, False)

    def send_data(self, frame: bytes) -> None:
        """Send a frame of data (`Wire.send_data`). During a cut it waits."""
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
        """End the stream (`Wire.close`). During a cut the other end gets no `closed`."""
        if self._over:
            return
        if self._deaf:
            self._over = True
            self._waiting.clear()
            self._farewell = reason
        else:
            self._end(reason)

    # -- called by the wrapped transport: WireEvents

    def _tell(self, event: Callable[[], None]) -> None:
        self.transport.gate.when_awake(event)

    def opened(self, wire: Wire, welcome: bytes) -> None:
        """The other side has accepted the hello (`WireEvents.opened`)."""
        if self._over:
            wire.close("the dial was given up")
            return
        self.wire = wire
        self._tell(partial(self._opened, welcome))

    def _opened(self, welcome: bytes) -> None:
        if not self._over and self.events is not None:
            self.events.opened(self, welcome)

    def received(self, frame: bytes) -> None:
        """A frame has arrived (`WireEvents.received`)."""
        self._tell(partial(self._received, frame))

    def _received(self, frame: bytes) -> None:
        if not self._over and self.events is not None:
            self.events.received(frame)

    def drained(self) -> None:
        """The network has taken all frames of `send` (`WireEvents.drained`)."""
        self._tell(self._drained)

    def _drained(self) -> None:
        if not self._over and self.events is not None:
            self.events.drained()

    def data_drained(self) -> None:
        """The network has taken all frames of `send_data` (`WireEvents.data_drained`)."""
        self._tell(self._data_drained)

    def _data_drained(self) -> None:
        if not self._over and self.events is not None:
            self.events.data_drained()

    def closed(self, reason: str) -> None:
        """The wire is closed, or the dial has failed (`WireEvents.closed`)."""
        self._tell(partial(self._closed, reason))

    def _closed(self, reason: str) -> None:
        if self._over:
            return
        self.forget()
        if self.events is not None:
            self.events.closed(reason)

"""For tests of transports: events to wait for, and a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from strogoff.cluster.transport.wire import Accepted, Refused, Transport, Wire


class Recorder:
    """`WireEvents` that records its calls: (kind, value), or (kind,) without a value."""

    def __init__(self, on_frame: Callable[[Wire, bytes], None] | None = None) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.wire: Wire | None = None
        self._on_frame = on_frame
        self._changed = asyncio.Event()

    def opened(self, wire: Wire, welcome: bytes) -> None:
        self.wire = wire
        self._add("opened", welcome)

    def received(self, frame: bytes) -> None:
        self._add("received", frame)
        if self._on_frame is not None:
            assert self.wire is not None
            self._on_frame(self.wire, frame)

    def drained(self) -> None:
        self._add("drained")

    def data_drained(self) -> None:
        self._add("data_drained")

    def closed(self, reason: str) -> None:
        self._add("closed", reason)

    def _add(self, *event: Any) -> None:
        self.seen.append(event)
        self._changed.set()

    def all(self, kind: str) -> list[Any]:
        """The values of the events of one kind."""
        return [event[1] if len(event) > 1 else None for event in self.seen if event[0] == kind]

    async def until(self, kind: str, count: int = 1, within_s: float = 10) -> list[Any]:
        """Wait until there are this many events of a kind."""
        async with asyncio.timeout(within_s):
            while len(self.all(kind)) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.all(kind)


class WireServer:
    """Accepts every hello but b"no", with the welcome b"welcome to " + hello; records the accepted wires."""

    def __init__(self, transport: Transport, on_frame: Callable[[Wire, bytes], None] | None = None) -> None:
        self.transport = transport
        self.address = ""
        self.accepted: list[Recorder] = []
        self.early: bytes | None = None
        self.early_data: list[bytes] = []
        self._on_frame = on_frame
        self._came = asyncio.Event()

    async def open(self, address: str, calls: Callable[[str, bytes], Awaitable[bytes]] | None = None) -> str:
        """Serve."""
        self.address = await self.transport.serve(address, self.accept, calls)
        return self.address

    def accept(self, hello: bytes, wire: Wire) -> Accepted | Refused:
        """Accept or refuse a hello, as the contract of the transport requires."""
        if hello == b"no":
            return Refused("not a member of this cluster")
        recorder = Recorder(self._on_frame)
        recorder.wire = wire
        self.accepted.append(recorder)
        if self.early is not None:
            wire.send(self.early)
        for frame in self.early_data:
            wire.send_data(frame)
        self._came.set()
        return Accepted(b"welcome to " + hello, recorder)

    async def comes(self, count: int = 1) -> Recorder:
        """Wait until this many wires were accepted; returns the last one."""
        async with asyncio.timeout(10):
            while len(self.accepted) < count:
                self._came.clear()
                await self._came.wait()
        return self.accepted[count - 1]

"""A stream within one process: two ends, and the items in transit between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from .handshake import NotProven, Session, decode_verdict
from .wire import WireEvents, ignore_stamp

Path = tuple[str, str]
"""From one host to another."""

Item = tuple[str, bytes, str, object]
"""An item in transit: "frame", "data" or "verdict" with bytes, "close" with a reason; the last one is `Ways.sent`."""


class Timer(Protocol):
    """A pending call of a function, as `call_later` of an asyncio loop returns it."""

    def cancel(self) -> None:
        """The owner no longer wants the call: do not make it."""


class Ways(Protocol):
    """The part of the network that a stream uses."""

    soon: Callable[[Callable[[], None]], object]

    def send(self, path: Path, step: Callable[[], None], size: int = 0, data: bool = False) -> None:
        """An end sends: call `step` once when the data arrives at the peer, or never if the path loses it.

        `size` is the number of bytes, `data` tells whether they use the data channel.
        """

    def sent(self, host: str) -> object:
        """See `MemoryNetwork.sent`."""

    def took(self, host: str, sent: object) -> None:
        """See `MemoryNetwork.took`."""

    def over(self, stream: Stream) -> None:
        """Both ends of the stream are closed: forget it. Called once for each stream."""


class Stream:
    """One dial and its stream. It is the `Dialing` of the side that dialled."""

    __slots__ = ("far", "near", "observe", "opened", "session", "stamp", "timer", "ways")

    def __init__(self, ways: Ways, near_host: str, far_host: str, address: str, events: WireEvents) -> None:
        self.ways = ways
        self.near = End(self, near_host, address)
        self.far = End(self, far_host, near_host)
        self.near.other, self.far.other = self.far, self.near
        self.near.events = events
        self.opened = False
        self.session: Session | None = None
        """The session of the dialer with the acceptor."""
        self.stamp = 0
        """What came with the verdict."""
        self.observe: Callable[[int], None] = ignore_stamp
        """Called with `stamp` when the dialer gets the verdict."""
        self.timer: Timer | None = None

    def cancel(self) -> None:
        """Implements `Dialing.cancel`."""
        self.near.close("cancelled by the dialer")

    def near_fails(self, reason: str) -> None:
        """The dial fails: report `closed` to the dialer."""
        if not self.opened:
            self.near.lost(reason)

    def broken(self, reason: str) -> None:
        """Close both ends at once; items in transit are lost."""
        for end in (self.near, self.far):
            if not end.dead:
                end.die()
                self.ways.soon(lambda end=end: end.tell_closed(reason))  # type: ignore[misc]

    def settle(self) -> None:
        """Cancel the timer of a dial that has ended; leave the network once both ends are closed."""
        if self.timer is not None and (self.opened or self.near.dead):
            self.timer.cancel()
        if self.near.dead and (self.far.dead or self.far.events is None):
            self.ways.over(self)


class End:
    """One end of a stream. Implements `Wire`."""

    __slots__ = (
        "_data", "_data_transit", "_handing", "_handing_data", "_queue", "_ready", "_transit", "dead", "events",
        "host", "other", "peer", "queued_bytes", "stream",
    )  # fmt: skip

    def __init__(self, stream: Stream, host: str, peer: str) -> None:
        self.stream = stream
        self.host = host
        self.peer = peer
        self.other: End = self
        self.events: WireEvents | None = None
        self.dead = False
        self.queued_bytes = 0
        self._ready = False
        self._handing = self._handing_data = False
        self._queue: deque[tuple[bytes, object]] = deque()
        self._data: deque[tuple[bytes, object]] = deque()
        self._transit: deque[Item] = deque()
        self._data_transit: deque[Item] = deque()

    # The owner's side

    def send(self, frame: bytes) -> None:
        """Implements `Wire.send`."""
        if self.dead:
            return
        self._queue.append((frame, self.stream.ways.sent(self.host)))
        self.queued_bytes += len(frame)
        if self._ready:
            self._hand_over_soon()

    def send_data(self, frame: bytes) -> None:
        """Implements `Wire.send_data`."""
        if self.dead:
            return
        self._data.append((frame, self.stream.ways.sent(self.host)))
        self.queued_bytes += len(frame)
        if self._ready:
            self._hand_over_data_soon()

    def close(self, reason: str) -> None:
        """Implements `Wire.close`."""
        if not self.dead:
            self._ship("close", reason=reason)
            self.die()

    # The network's side

    def accept(self, verdict: bytes, events: WireEvents) -> None:
        """The acceptor has accepted: send the verdict with the welcome first, then the frames that the owner queued."""
        if self.dead:
            return
        self.events = events
        self._ready = True
        self._ship("verdict", verdict, "", self.stream.ways.sent(self.host))
        if self._queue:
            self._hand_over_soon()
        if self._data:
            self._hand_over_data_soon()

    def refuse(self, verdict: bytes) -> None:
        """The acceptor has refused: send the verdict with the reason."""
        if not self.dead:
            self._ship("verdict", verdict, "", self.stream.ways.sent(self.host))
            self.die()

    def _verdict(self, data: bytes) -> None:
        stream = self.stream
        assert stream.session is not None and self.events is not None
        stream.observe(stream.stamp)
        try:
            accepted, content = decode_verdict(stream.session.open(data))
        except NotProven as error:
            stream.near_fails(str(error))
            return
        if not accepted:
            stream.near_fails(content.decode(errors="replace"))
            return
        stream.opened = self._ready = True
        stream.settle()
        self.events.opened(self, content)

    def lost(self, reason: str) -> None:
        """Close this end and report `closed` to its owner, and to the other end if the path is open."""
        if not self.dead:
            self._ship("close", reason=reason)
            self.die()
            self.tell_closed(reason)

    def die(self) -> None:
        """Mark this end as dead: it sends nothing more and delivers no event except `closed`."""
        self.dead = True
        self._queue.clear()
        self._data.clear()
        self.queued_bytes = 0
        self.stream.settle()

    def tell_closed(self, reason: str) -> None:
        """Report `closed`, the last event, if the end has an owner."""
        events, self.events = self.events, None
        if events is not None:
            events.closed(reason)

    def _hand_over_soon(self) -> None:
        if not self._handing:
            self._handing = True
            self.stream.ways.soon(self._hand_over)

    def _hand_over(self) -> None:
        self._handing = False
        if self.dead or self.events is None:
            return
        while self._queue:
            frame, sent = self._queue.popleft()
            self.queued_bytes -= len(frame)
            self._ship("frame", frame, "", sent)
        self.events.drained()

    def _hand_over_data_soon(self) -> None:
        if not self._handing_data:
            self._handing_data = True
            self.stream.ways.soon(self._hand_over_data)

    def _hand_over_data(self) -> None:
        self._handing_data = False
        if self.dead or self.events is None:
            return
        while self._data:
            frame, sent = self._data.popleft()
            self.queued_bytes -= len(frame)
            self._data_transit.append(("data", frame, "", sent))
            self.stream.ways.send((self.host, self.other.host), self._data_arrives, len(frame), True)
        self.events.data_drained()

    def _ship(self, kind: str, data: bytes = b"", reason: str = "", sent: object = None) -> None:
        # The step takes the first item in transit, so that a path whose delay shrinks does not reorder a stream.
        self._transit.append((kind, data, reason, sent))
        self.stream.ways.send((self.host, self.other.host), self._arrives, len(data))

    def _arrives(self) -> None:
        self.other.take(self._transit.popleft())

    def _data_arrives(self) -> None:
        self.other.take(self._data_transit.popleft())

    def take(self, item: Item) -> None:
        """An item of the other end arrives: deliver it."""
        kind, data, reason, sent = item
        if self.dead or self.events is None:
            return
        self.stream.ways.took(self.host, sent)
        if kind == "close":
            self.die()
            self.tell_closed(reason)
            return
        try:
            if kind == "verdict":
                self._verdict(data)
            else:
                self.events.received(data)
        except Exception as error:
            self.lost(f"error in the receiver: {error!r}")
            raise

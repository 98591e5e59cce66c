"""A connection between a model client and a node: two streams of bytes on virtual time.

Bytes arrive whole and in order, after a delay drawn from the seed; they may be joined or cut anywhere, as TCP does. A
side that is gone gets nothing more, and what was under way to it is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from .loop import VirtualLoop

Receiver = Callable[[bytes], None]


class Stream:
    """One direction. `deliver` is called with what arrives; `ended` once, after the last byte."""

    def __init__(self, loop: VirtualLoop, rng: Random, delay_s: tuple[float, float]) -> None:
        self._loop = loop
        self._rng = rng
        self._delay_s = delay_s
        self._last_s = 0.0
        self._held: list[bytes] = []
        self._paused = False
        self._end_held = False
        self.open = True
        self.deliver: Receiver | None = None
        self.ended: Callable[[], None] | None = None

    def _when(self) -> float:
        arrival = self._loop.now_s + self._rng.uniform(*self._delay_s)
        self._last_s = max(self._last_s, arrival)
        return self._last_s - self._loop.now_s

    def send(self, data: bytes) -> None:
        """Put bytes on their way, now and then in two pieces."""
        if not self.open:
            return
        if len(data) > 1 and self._rng.random() < 0.1:
            cut = self._rng.randrange(1, len(data))
            pieces = [data[:cut], data[cut:]]
        else:
            pieces = [data]
        for piece in pieces:
            self._loop.call_later(self._when(), partial(self._arrive, piece))

    def end(self) -> None:
        """Close in order: what was sent still arrives, then the other side learns it."""
        if self.open:
            self._loop.call_later(self._when(), self._arrive_end)

    def cut(self) -> None:
        """Nothing arrives any more, not even what is under way."""
        self.open = False

    def pause(self) -> None:
        """The receiver does not read; bytes wait in the network."""
        self._paused = True

    def resume(self) -> None:
        """The receiver reads again."""
        self._paused = False
        held, self._held = self._held, []
        for number, data in enumerate(held):
            if self._paused:
                self._held = held[number:] + self._held
                return
            self._arrive(data)
        if self._end_held:
            self._end_held = False
            self._arrive_end()

    def _arrive(self, data: bytes) -> None:
        if not self.open:
            return
        if self._paused:
            self._held.append(data)
        elif self.deliver is not None:
            self.deliver(data)

    def _arrive_end(self) -> None:
        if not self.open:
            return
        if self._paused:
            self._end_held = True
            return
        self.open = False
        if self.ended is not None:
            self.ended()


class Pipe:
    """Both directions, and the node's end as a `broker.link.Link`."""

    def __init__(self, loop: VirtualLoop, rng: Random, delay_s: tuple[float, float] = (0.0, 0.0)) -> None:
        self.to_node = Stream(loop, rng, delay_s)
        self.to_client = Stream(loop, rng, delay_s)
        self.write = self.to_client.send

    def close(self) -> None:
        """The node closes: what it wrote still arrives."""
        self.to_client.end()
        self.to_node.cut()

    def abort(self) -> None:
        """The node closes at once."""
        self.close()

    def pause_reading(self) -> None:
        """The node does not read."""
        self.to_node.pause()

    def resume_reading(self) -> None:
        """The node reads again."""
        self.to_node.resume()

    def break_off(self) -> None:
        """The network loses the connection: both sides learn it, nothing under way arrives."""
        if self.to_client.open:
            self.to_client.end()
        for stream in (self.to_node, self.to_client):
            stream.open = False
            ended = stream.ended
            stream.ended = None
            if ended is not None:
                ended()

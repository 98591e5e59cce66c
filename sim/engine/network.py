"""The network between the simulated machines: every message takes its own time, streams break now and then."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random

from ...cluster.transport.memory_network import Later, Soon
from ...cluster.transport.memory_stream import Path
from .process_gate import GatedNetwork


class SimNetwork(GatedNetwork):
    """Delays are drawn per message from `delay_s` and grow by what a fault adds. Each way of a stream stays in order,
    ways and streams overtake each other. Lost packets are sent again by the stream, which is slow, and breaks if many
    are.

    `bytes_per_s` is the bandwidth from each machine to each other one: what does not fit waits for what went before.
    `now` gives the time in seconds.
    """

    def __init__(
        self, soon: Soon, later: Later, now: Callable[[], float], rng: Random, delay_s: tuple[float, float],
        bytes_per_s: float = inf,
    ) -> None:  # fmt: skip
        super().__init__(soon, later)
        self.delay_s = delay_s
        self.bytes_per_s = bytes_per_s
        self._now = now
        self._rng = rng
        self._slower: dict[Path, float] = {}
        self._slower_data: dict[Path, float] = {}
        self._losses: dict[Path, float] = {}
        self._busy_until: dict[Path, float] = {}

    def slow(self, a: str, b: str, seconds: float) -> None:
        """What a and b send each other takes so much longer; 0 ends it."""
        self._slower[a, b] = self._slower[b, a] = seconds

    @property
    def slowed(self) -> bool:
        """Whether something takes longer between two machines."""
        return any(self._slower.values()) or any(self._slower_data.values())

    def slow_data(self, a: str, b: str, seconds: float) -> None:
        """Of what a and b send each other, data takes so much longer; 0 ends it."""
        self._slower_data[a, b] = self._slower_data[b, a] = seconds

    def lose(self, a: str, b: str, share: float) -> None:
        """That share of what a and b send each other is lost; 0 ends it."""
        self._losses[a, b] = self._losses[b, a] = share

    def mend(self) -> None:
        """No cuts, no losses, no slow links, all the bandwidth there is."""
        self._slower.clear()
        self._slower_data.clear()
        self._losses.clear()
        self.bytes_per_s = inf
        self.heal()

    def _travel(self, path: Path, step: Callable[[], None], size: int, data: bool) -> None:
        rng = self._rng
        low, high = self.delay_s
        took = low + (high - low) * rng.random() + self._slower.get(path, 0.0)
        if data:
            took += self._slower_data.get(path, 0.0)
        share = self._losses.get(path, 0.0)
        if share:
            if rng.random() < share / 20:
                self.drop(*path)
            while rng.random() < share and took < 2.0:
                took += 0.2 + took
        if self.bytes_per_s != inf:
            now = self._now()
            sent = max(now, self._busy_until.get(path, 0.0)) + size / self.bytes_per_s
            self._busy_until[path] = sent
            took += sent - now
        self.later(took, step)

"""The network between the simulated machines: every message takes its own time, streams break now and then."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ...cluster.transport.memory_network import Later, Soon
from ...cluster.transport.memory_stream import Path
from .gate import GatedNetwork


class Roads(GatedNetwork):
    """Delays are drawn per message from `delay_s` and grow by what a fault adds; a stream stays in order, several
    streams overtake each other. Lost packets are sent again by the stream, which is slow, and breaks if many are."""

    def __init__(self, soon: Soon, later: Later, rng: Random, delay_s: tuple[float, float]) -> None:
        super().__init__(soon, later)
        self.delay_s = delay_s
        self._rng = rng
        self._slower: dict[Path, float] = {}
        self._losses: dict[Path, float] = {}

    def slow(self, a: str, b: str, seconds: float) -> None:
        """What a and b send each other takes so much longer; 0 ends it."""
        self._slower[a, b] = self._slower[b, a] = seconds

    def lose(self, a: str, b: str, share: float) -> None:
        """That share of what a and b send each other is lost; 0 ends it."""
        self._losses[a, b] = self._losses[b, a] = share

    def mend(self) -> None:
        """No cuts, no losses, no slow links."""
        self._slower.clear()
        self._losses.clear()
        self.heal()

    def _travel(self, path: Path, step: Callable[[], None]) -> None:
        rng = self._rng
        low, high = self.delay_s
        took = low + (high - low) * rng.random() + self._slower.get(path, 0.0)
        share = self._losses.get(path, 0.0)
        if share:
            if rng.random() < share / 20:
                self.drop(*path)
            while rng.random() < share and took < 2.0:
                took += 0.2 + took
        self.later(took, step)

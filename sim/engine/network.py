"""The network between machines: each message has a random delay, and faults add delays, lose packets or cut links."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random
from typing import Protocol

from ...cluster.transport.memory_network import Later, Soon
from ...cluster.transport.memory_stream import Path
from .process_gate import GatedNetwork


class Watch(Protocol):
    """Sees everything that goes from a machine to another one, but the ends of streams."""

    def sent(self, node: str) -> object:
        """A machine sends something. Returns what `took` gets when it is taken."""

    def took(self, node: str, sent: object) -> None:
        """A machine takes what another one has sent, before it handles that."""


HEAVY_LOSS = 0.5
"""From this share of lost packets on a network is `lossy`: a message then takes half a second on average, some take
three, and a stream breaks after 40 messages."""


class SimNetwork(GatedNetwork):
    """A network whose delays are drawn from `delay_s` (seconds) for each message; faults add to them.

    Each direction of a stream stays in order; directions and streams may overtake each other. A stream sends lost
    packets again: losses make it slow, and may break it. `bytes_per_s` is the bandwidth from each machine to each other
    machine; if it is used up, messages wait. `now` returns the time in seconds.
    """

    def __init__(
        self, soon: Soon, later: Later, now: Callable[[], float], rng: Random, delay_s: tuple[float, float],
        bytes_per_s: float = inf,
    ) -> None:  # fmt: skip
        super().__init__(soon, later)
        self.delay_s = delay_s
        self.bytes_per_s = bytes_per_s
        self.watch: Watch | None = None
        self._now = now
        self._rng = rng
        self._slower: dict[Path, float] = {}
        self._slower_data: dict[Path, float] = {}
        self._losses: dict[Path, float] = {}
        self._busy_until: dict[Path, float] = {}

    def sent(self, host: str) -> object:
        """As `MemoryNetwork.sent`, for `watch`."""
        return None if self.watch is None else self.watch.sent(host)

    def took(self, host: str, sent: object) -> None:
        """As `MemoryNetwork.took`, for `watch`."""
        if self.watch is not None:
            self.watch.took(host, sent)

    def slow(self, a: str, b: str, seconds: float) -> None:
        """Delay all messages between a and b by that many seconds; 0 ends the fault."""
        self._slower[a, b] = self._slower[b, a] = seconds

    @property
    def slowed(self) -> bool:
        """Whether a fault delays messages or data between two machines."""
        return any(self._slower.values()) or any(self._slower_data.values())

    def slow_data(self, a: str, b: str, seconds: float) -> None:
        """Delay data between a and b, but not urgent messages, by that many seconds; 0 ends the fault."""
        self._slower_data[a, b] = self._slower_data[b, a] = seconds

    def lose(self, a: str, b: str, share: float) -> None:
        """Lose that share of the packets between a and b; 0 ends the fault."""
        self._losses[a, b] = self._losses[b, a] = share

    @property
    def lossy(self) -> bool:
        """Whether a fault loses so many packets that a stream breaks before it has carried a request and its answer."""
        return any(share >= HEAVY_LOSS for share in self._losses.values())

    def mend(self) -> None:
        """End all cuts, losses, delays and limits of bandwidth."""
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

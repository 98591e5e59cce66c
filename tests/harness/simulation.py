"""The engine of all simulated clusters in tests: virtual time, a network in memory, and disks that take no time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Generic, TypeVar

from strogoff.cluster.transport.memory_network import MemoryNetwork
from strogoff.sim.engine.disk import SimDisk
from strogoff.sim.engine.loop import VirtualLoop
from strogoff.storage.engine import Durability

STEP_S = 0.01
"""The interval between two checks of `until`, in seconds of virtual time."""

PATIENCE_S = 20.0

Network = TypeVar("Network", bound=MemoryNetwork)


class Simulation(Generic[Network]):
    """Virtual time without events, and a network of the type `network` without nodes."""

    def __init__(self, network: type[Network]) -> None:
        self.loop = loop = VirtualLoop()
        self.network: Network = network(loop.call_soon, loop.call_later)

    def disk(self, name: str, content: Mapping[bytes, bytes] | None = None, durability: Durability = "sync") -> SimDisk:
        """Returns a disk that takes no time, empty or with this content. `name` seeds its random choices."""
        return SimDisk(Random(name), self.loop.call_later, lambda: self.loop.now_s, durability, (0.0, 0.0), content)

    def settle(self) -> None:
        """Run everything that is due; no time passes."""
        self.loop.settle()

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        self.loop.run_for(seconds)

    def until(self, condition: Callable[..., object], patience_s: float = PATIENCE_S) -> float:
        """Let time pass until the condition holds. Returns the seconds that it took; fails after `patience_s`."""
        begin = self.loop.now_s
        while not condition():
            assert self.loop.now_s - begin < patience_s, "the condition did not become true in time"
            self.loop.run_for(STEP_S)
        return self.loop.now_s - begin

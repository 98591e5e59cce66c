"""Injects faults into the world of one node: kills, power loss, restarts, slow and full disks, wrong clocks, bad
networks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from ..world import NodeWorld

GOOD_NETWORK_S = (0.0005, 0.01)
YEAR_MS = 365 * 86400 * 1000.0
FAILS = "fails"
"""A kind of fault that no swarm draws: only an option selects it."""


class NodeFaultInjector:
    """Injects the faults of a swarm. Half of the kills happen shortly after the begin of a write."""

    def __init__(self, world: NodeWorld, rng: Random) -> None:
        self._world = world
        self._machine = world.machine
        self._rng = rng
        self._over = False
        self._kinds: dict[str, Callable[[], None]] = {
            "kill": lambda: self._crash(False),
            "power": lambda: self._crash(True),
            "restart": self._restart,
            "stall": self._stall,
            "full": self._full,
            "wall": self._wall,
            "cut": self._cut,
            "slow_net": self._slow_net,
            FAILS: self._fails,
        }

    def begin(self) -> None:
        """Schedule the faults."""
        swarm, rng, loop = self._world.swarm, self._rng, self._world.loop
        if not swarm.faults:
            return
        for _ in range(swarm.fault_count):
            kind = rng.choice(swarm.faults)
            when = 1.0 + rng.random() * (swarm.seconds - 1.0)
            if kind in ("kill", "power") and rng.random() < 0.5:
                loop.call_later(when, partial(self._after_write, kind))
            else:
                loop.call_later(when, partial(self._inject, kind))

    def heal(self) -> None:
        """End all faults, and inject no more."""
        self._over = True
        world = self._world
        self._machine.wall_off_ms = 0.0
        self._machine.messages.disk.full = self._machine.messages.disk.failing = False
        self._machine.messages.disk.stall_until = 0.0
        self._machine.messages.on_write = None
        world.set_delay(GOOD_NETWORK_S)

    def _inject(self, kind: str) -> None:
        if not self._over and self._machine.up:
            self._kinds[kind]()

    def _after_write(self, kind: str) -> None:
        """Inject the fault soon after the begin of the next write."""
        messages, loop = self._machine.messages, self._world.loop

        def begun() -> None:
            messages.on_write = None
            reach = 1.5 * self._world.swarm.latency_s[1]
            loop.call_later(self._rng.random() * reach, lambda: self._inject(kind))

        if not self._over:
            messages.on_write = begun

    def _crash(self, power: bool) -> None:
        world = self._world
        world.history.fault("power loss" if power else "kill")
        world.crash(self._machine, power)
        down_s = self._rng.choice((0.01, 0.3, 2.0)) * (0.5 + self._rng.random())
        world.loop.call_later(down_s, self._start)

    def _start(self) -> None:
        """Start the node again, unless the end of all faults has started it."""
        if self._machine.node is None:
            self._world.start(self._machine)

    def _restart(self) -> None:
        world = self._world
        world.history.fault("restart")
        pause = self._rng.random()
        self._machine.stop(lambda: self._stopped(pause))

    def _stopped(self, pause_s: float) -> None:
        self._world.stopped(self._machine)
        self._world.loop.call_later(pause_s, self._start)

    def _stall(self) -> None:
        world = self._world
        seconds = self._rng.choice((0.5, 2.0, 6.0))
        world.history.fault(f"disk stalls for {seconds} s")
        self._machine.messages.disk.stall_until = world.loop.now_s + seconds

    def _full(self) -> None:
        world = self._world
        world.history.fault("disk full")
        self._machine.messages.disk.full = True
        world.loop.call_later(self._rng.choice((0.5, 2.0, 5.0)), self._room)

    def _room(self) -> None:
        if not self._over:
            self._world.history.fault("disk has room")
        self._machine.messages.disk.full = False

    def _fails(self) -> None:
        """Let the next write fail; yet it may be on the disk."""
        self._world.history.fault("a write fails")
        self._machine.messages.disk.failing = True
        self._look_after()

    def _look_after(self) -> None:
        """Restart the node when its disk has failed, as an operator does."""
        node = self._machine.node
        if node is not None and node.env.store.state == "failed":
            self._crash(False)
        elif not self._over:
            self._world.loop.call_later(self._rng.choice((0.5, 2.0)), self._look_after)

    def _wall(self) -> None:
        world = self._world
        off = self._rng.choice((YEAR_MS, -YEAR_MS, 60_000.0, -60_000.0))
        world.history.fault(f"wall clock is set by {off / 1000:+.0f} s")
        self._machine.wall_off_ms = off
        world.loop.call_later(self._rng.choice((1.0, 5.0)), self._wall_right)

    def _wall_right(self) -> None:
        self._machine.wall_off_ms = 0.0

    def _cut(self) -> None:
        """Break some of the connections."""
        pipes = list(self._machine.pipes)
        for pipe in pipes:
            if self._rng.random() < 0.5:
                pipe.break_off()
        self._world.history.fault("connections break")

    def _slow_net(self) -> None:
        world = self._world
        world.history.fault("the network is slow")
        world.set_delay((0.2, 1.0))
        world.loop.call_later(3.0, self._fast_net)

    def _fast_net(self) -> None:
        if not self._over:
            self._world.set_delay(self._world.swarm.delay_s)

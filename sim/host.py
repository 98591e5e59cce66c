"""A machine of the simulation: one node with its disk and clocks, that can be killed and started again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from ..broker.events import Events
from ..broker.hooks import Hooks, Verdict
from ..broker.link import ConnectionOrigin
from ..broker.node import Node, Ports
from ..broker.options import Options
from ..cluster.clock import ClusterClock
from ..configs.listeners import ListenerSettings
from ..storage.engine import Engine
from ..storage.store import Store
from .loop import Scheduled, VirtualLoop
from .pipe import Pipe

EPOCH_MS = 1_760_000_000_000
"""Wall clock at the begin of a simulation, in ms since 1970."""


class AllowAll:
    """No plugin at all would refuse everything; this one allows everything."""

    def auth_on_register(self, *_: Any) -> bool:
        """Everybody may come."""
        return True

    def auth_on_publish(self, *_: Any) -> Any:
        """Everybody may publish anything, and that may be remembered."""
        from ..broker.hooks import Allow

        return Allow(cacheable=True)

    def auth_on_subscribe(self, *_: Any) -> bool:
        """Everybody may subscribe to anything."""
        return True


class Host:
    """One node of the simulation. `disk` outlives the processes; `wall_off_ms` is how wrong its wall clock is."""

    def __init__(
        self,
        loop: VirtualLoop,
        disk: Callable[[Host], Engine],
        options: Options | None = None,
        seed: int = 0,
        name: str = "n1",
        plugins: dict[str, object] | None = None,
    ) -> None:
        self.loop = loop
        self._new_engine = disk
        self.options = options or Options(allow_anonymous=True, systree_enabled=False)
        self.seed = seed
        self.name = name
        self.plugins = {"allow": AllowAll()} if plugins is None else plugins
        self.boot = 0
        self.wall_off_ms = 0.0
        self.lines: list[tuple[str, str]] = []
        self.events: list[dict[str, Any]] = []
        self.event_level = 0
        self.node: Node | None = None
        self.engine: Engine | None = None
        self.pipes: list[Pipe] = []
        self._wake: Scheduled | None = None
        self._wake_at = 0

    # -- life

    def start(self) -> Node:
        """Start a process on the disk as it is."""
        assert self.node is None
        self.boot += 1
        self.engine = self._new_engine(self)
        store = Store(self.engine, self.soon, self.later)
        clock = ClusterClock(self._wall_ms, lambda: self.loop.now_s * 1000)
        rng = Random(f"{self.seed}/{self.name}/{self.boot}")
        ports = Ports(clock, store, self.soon, self._wake_port, self._spawn, rng, self._log)
        hooks = Hooks()
        for name, plugin in self.plugins.items():
            hooks.add(name, plugin)
        events = Events(
            node=self.name,
            boot=self.boot,
            run_id=str(self.seed),
            now_ms=clock.now_ms,
            mono_ns=lambda: int(self.loop.now_s * 1e9),
            level=self.event_level,
        )
        events.add(self.events.append)
        self.node = Node(self.name, self.boot, self.options, hooks, events, ports)
        self.node.open()
        return self.node

    def _wall_ms(self) -> float:
        return EPOCH_MS + self.loop.now_s * 1000 + self.wall_off_ms

    def kill(self) -> None:
        """The process is gone between two instructions; its peers see their connections reset."""
        node, self.node = self.node, None
        assert node is not None
        self._forget_wake()
        pipes, self.pipes = self.pipes, []
        for pipe in pipes:
            pipe.to_node.ended = None
            pipe.break_off()

    def stop(self) -> None:
        """Stop in order: connections are closed, everything is committed."""
        node = self.node
        assert node is not None
        node.close()
        done: list[bool] = []
        node.store.flush(lambda: done.append(True))
        while not done and self.loop.turn():
            pass
        node.store.close()
        self.node = None
        self._forget_wake()
        self.pipes.clear()

    # -- ports: what a dead process asked for does not happen

    def soon(self, function: Callable[[], None]) -> None:
        boot = self.boot
        self.loop.call_soon(lambda: function() if self._alive(boot) else None)

    def later(self, delay_s: float, function: Callable[[], None]) -> Scheduled:
        boot = self.boot
        return self.loop.call_later(delay_s, lambda: function() if self._alive(boot) else None)

    def _alive(self, boot: int) -> bool:
        return boot == self.boot and self.node is not None

    def _wake_port(self, when_ms: int) -> None:
        if self._wake is not None and self._wake.function is not None and self._wake_at <= when_ms:
            return
        self._forget_wake()
        self._wake_at = when_ms
        now = EPOCH_MS + self.loop.now_s * 1000 if self.node is None else self.node.clock.now_ms()
        self._wake = self.later((when_ms - now) / 1000, self._woken)

    def _woken(self) -> None:
        self._wake = None
        if self.node is not None:
            self.node.wake()

    def _forget_wake(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    def _spawn(self, work: Awaitable[Verdict], then: Callable[[Verdict], None]) -> None:
        raise AssertionError("plugins of the simulation answer at once")

    def _log(self, level: str, line: str) -> None:
        self.lines.append((level, line))

    # -- connections

    def connect(self, rng: Random, delay_s: tuple[float, float] = (0.0, 0.0), **listener: Any) -> Pipe | None:
        """A client connects; None while nobody listens."""
        node = self.node
        if node is None:
            return None
        pipe = Pipe(self.loop, rng, delay_s)
        settings = ListenerSettings(type="tcp", name="default", host="127.0.0.1", port=1883, **listener)
        origin = ConnectionOrigin("127.0.0.1", 40000 + len(self.pipes), settings, None, None, "tcp")
        front = node.accept(pipe, origin)
        pipe.to_node.deliver = front.receive
        pipe.to_node.ended = lambda: front.lost("peer closed")
        self.pipes.append(pipe)
        return pipe

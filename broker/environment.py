"""The environment that all parts of a broker node share: time, disk, options, numbers, and the observer.

A part that needs only some of this still takes the whole `Environment`. The class is below all other modules of the
broker and knows none of them. All effects on the outside world go through `Ports`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from ..cluster.clock import ALARM_MS, ClusterClock
from ..cluster.identity import Numbers
from ..storage.store import Store
from .background import Background
from .cluster_port import ClusterPort, Standalone
from .observer import Observer
from .options import Options
from .plugins.hooks import Hooks, Verdict
from .queues.message import Origin
from .queues.records import Origins
from .reporting.events import Events
from .timers import Timers


class Random(Protocol):
    """The port for chance: `random.Random` has it."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to below `stop`."""
        ...

    def getrandbits(self, bits: int, /) -> int:
        """A number with `bits` random bits."""
        ...


class Ports(msgspec.Struct):
    """Everything that a node uses of the outside world.

    `schedule` calls a function at the end of the turn; `wake_at` asks for a call of `Environment.wake` at a cluster
    time in ms; `spawn` runs a hook's awaitable and passes its verdict to a function; `log` takes a level and a line.
    """

    clock: ClusterClock
    store: Store
    schedule: Callable[[Callable[[], None]], object]
    wake_at: Callable[[int], None]
    spawn: Callable[[Awaitable[Verdict], Callable[[Verdict], None]], None]
    rng: Random
    log: Callable[[str, str], None]


class Environment:
    """The environment of one node.

    `now` is cluster time in ms when `tick` was last called; `origin` is the node name and boot that every mid of this
    node has; `cluster` is the port to the other nodes.
    """

    __slots__ = (
        "background",
        "clock",
        "cluster",
        "counters",
        "events",
        "hooks",
        "log",
        "now",
        "numbers",
        "observer",
        "options",
        "origin",
        "origins",
        "store",
        "timers",
    )

    def __init__(self, name: str, boot: int, options: Options, hooks: Hooks, events: Events, ports: Ports) -> None:
        self.options = options
        self.hooks = hooks
        self.events = events
        self.clock = ports.clock
        self.store = ports.store
        self.log = ports.log
        self.background = Background(ports.schedule)
        """Calls a function in a later turn, in which it calls no other one: for long work in steps."""
        self.now = self.clock.now_ms()
        self.timers = Timers(ports.wake_at)
        self.numbers = Numbers(boot)
        self.origins = Origins()
        self.origin: Origin = self.origins.get(name, boot)
        self.observer = Observer(
            hooks,
            events,
            ports.store,
            lambda slot: self.cluster.continues(slot),
            lambda ms, call: self.timers.at(self.now + ms, call),
        )
        self.counters = self.observer.counters
        self.observer.choice.filter(options.eventlog_clients, options.eventlog_topics)
        self.cluster: ClusterPort = Standalone()

    def unique_name(self) -> str:
        """Returns a name that this method returns at no other time and at no other node of the cluster."""
        return f"{self.origin.node}/{self.numbers.unique()}"

    @property
    def after_turn(self) -> Callable[[Callable[[], None]], object]:
        """Calls a function at the end of the turn."""
        return self.background.after_turn

    def tick(self) -> int:
        """Set and return `now`. The handler of each packet, commit and timer calls this first."""
        self.now = now = self.clock.now_ms()
        return now

    def since(self, moment: int) -> int:
        """Milliseconds since `moment`, a former `now`. If cluster time was set meanwhile, those since then."""
        set_at = self.clock.set_at_ms
        return self.now - (moment if set_at <= moment <= self.now else set_at)

    def has_rows(self, client: str, topic: str) -> bool:
        """Whether event logs have rows about a message that this client publishes now: for the counter of its mid."""
        return not self.events.messages or self.observer.choice.takes(client, topic)

    def event(self, type_: str, **fields: Any) -> None:
        """Emit a domain event of level `session` or `message`. Before the latter the caller tests `events.messages`."""
        if self.events.level:
            self.events.emit(type_, **fields)

    def wake(self) -> None:
        """Run timers that are due; others that are due run in the next turns of the loop. The shell calls this at the
        time that `Ports.wake_at` asked for."""
        self.timers.run(self.tick())

    def follow(self, offset_ms: float | None) -> None:
        """Adjust cluster time as `ClusterClock.follow` does. If that sets the clock, run the timers that are due now.

        If the clock is set back, move all deadlines by the same time: the node is a newcomer, and computed them with
        its own wrong clock.
        """
        self._set(self.clock.follow(offset_ms), "the wall clock" if offset_ms is None else "another node")

    def guess_wall(self) -> None:
        """Take the wall clock until a leader tells cluster time, as `ClusterClock.guess_wall` does."""
        self._set(self.clock.guess_wall(), "the wall clock, until a leader tells it")

    def _set(self, set_ms: float, whose: str) -> None:
        if not set_ms:
            return
        if set_ms < 0:
            self.timers.shift(round(set_ms))
        if abs(set_ms) > ALARM_MS:
            self.log("warning", f"cluster time is set by {set_ms / 1000:+.1f} s to follow {whose}")
        self.wake()

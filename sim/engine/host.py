"""A machine with one node, its disk and its clocks. The node can be killed and started again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any, NamedTuple

from ...analytics.schema import MESSAGE
from ...broker.connection.transport import ConnectionOrigin
from ...broker.environment import Ports
from ...broker.node import Node
from ...broker.options import Options, promised
from ...broker.plugins.hooks import Allow, Hooks, Verdict
from ...broker.process.eventlog_former import FormerLog
from ...broker.reporting.events import Events
from ...cluster.clock import ClusterClock, decode_saved, encode_saved
from ...configs.listeners import ListenerSettings
from ...storage.engine import Engine
from ...storage.store import Store
from .loop import Scheduled, VirtualLoop
from .pipe import Mark, Pipe

EPOCH_MS = 1_760_000_000_000
"""The wall clock at the begin of a simulation, in ms since 1970."""
CLOCK_KEY = b"nclock"
CLOCK_EVERY_S = 10.37
"""The interval at which the node stores its cluster time, in seconds, so that a restart never sets it back."""
STEP_S = 0.001
"""The time between two steps of the load of subscriptions, or of a snapshot, in seconds."""
STOP_S = 10.0
"""The longest wait of an orderly stop for the disk, in seconds, as in the real process."""


class AllowAll:
    """A plugin that allows everything: without any plugin the broker refuses everything."""

    def auth_on_register(self, *_: Any) -> bool:
        """Allow every client to connect."""
        return True

    def auth_on_publish(self, *_: Any) -> Allow:
        """Allow every client to publish anything; the broker may cache that."""
        return Allow(cacheable=True)

    def auth_on_subscribe(self, *_: Any) -> bool:
        """Allow every client to subscribe to anything."""
        return True


class EventLog(NamedTuple):
    """Where the rows of a node go, all of level `message`. `ahead_ms`: their clock is so much ahead."""

    take: Callable[[dict[str, Any]], None]
    ahead_ms: int = 0


class Host:
    """One machine with one node.

    `disk` makes the engine for each start. `wall_off_ms` is the error of the wall clock in ms. Ports for observers:
    `on_event` gets every domain event of `event_level`, `log` every row; `on_node` gets each new node before it opens;
    `mark` returns the mark of bytes to clients (`Stream.arrived`). `lines` is the node's log. `boot` counts the starts
    on this disk, `life` all starts.
    """

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
        self.life = 0
        self.wall_off_ms = 0.0
        self.lines: list[tuple[str, str]] = []
        self.events: list[dict[str, Any]] = []
        self.event_level = 0
        self.on_event: Callable[[dict[str, Any]], None] = self.events.append
        self.log: EventLog | None = None
        self.on_node: Callable[[Node], None] | None = None
        self.mark: Callable[[], Mark] | None = None
        self.node: Node | None = None
        self.engine: Engine | None = None
        self.pipes: list[Pipe] = []
        self._connections = 0
        self._stopped: Callable[[], None] | None = None
        self.machine = "the first boot"
        """The boot of the machine. A process on another boot does not know how long the machine was off."""
        self.unwritten = False
        """Whether the last orderly stop could not write everything in time."""
        self._wake: tuple[Scheduled, float] | None = None
        """The next call of `Environment.wake`, and its time in virtual seconds."""
        self._former: tuple[Events, bool] | None = None
        """The log of the last process on this disk, and whether its last rows may be lost."""

    # -- life

    def new_boot(self) -> None:
        """The machine has lost power: the next process runs under another boot of the kernel."""
        self.machine = f"boot after process {self.life}"
        self.lose_tail()

    def lose_tail(self) -> None:
        """A loss of power may have taken the last rows of the event log. None are missing, but the node cannot know."""
        if self._former is not None:
            self._former = self._former[0], True

    def forget_log(self) -> None:
        """The data directory has been replaced, with the event log in it."""
        self._former = None

    def _note_log(self) -> None:
        assert self.node is not None
        self._former = self.node.env.events, False

    @property
    def up(self) -> bool:
        """Whether a process runs and accepts connections."""
        return self.node is not None and not self.node.closing

    def start(self) -> Node:
        """Start a process with the present content of the disk."""
        assert self.node is None
        self.boot += 1
        self.life += 1
        self.engine = self._new_engine(self)
        store = Store(self.engine, self.soon, self.later)
        saved = decode_saved(store.get(CLOCK_KEY))
        clock = ClusterClock(self._wall_ms, self._mono_ms, saved, self._uptime_ms(), self.machine)
        rng = Random(f"{self.seed}/{self.name}/{self.life}")
        ports = Ports(clock, store, self.soon, self._wake_port, self._spawn, rng, self._log)
        hooks = Hooks(on_error=_plugin_failed)
        for name, plugin in self.plugins.items():
            hooks.add(name, plugin)
        level = self.event_level if self.log is None else MESSAGE
        events = Events(self.name, self.boot, self.run_id, self._log_clock(clock), self._mono_ns, level)
        former = None
        if self._former is not None:
            # since it was killed, the disk may have completed a write, and the log have the rows about that
            last, tail_lost = self._former
            former = FormerLog(last.seq, tail_lost, last.stamp())
            events.observe(former.stamp)
        if self.event_level:
            events.add(lambda row: self.on_event(row), self.event_level)
        if self.log is not None:
            events.add(self.log.take)
        self.node = node = Node(self.name, self.boot, self.options, hooks, events, ports)
        clock.on_set = self._save_clock
        if self.on_node is not None:
            self.on_node(node)
        self.prepare(node)
        node.open(self.promised(node), None if former is None else former.fields())
        self._keep_clock()
        return node

    def prepare(self, node: Node) -> None:
        """Prepare a new node before it opens: a standalone node trusts the wall clock.

        A turn takes no virtual time, so the steps of a start and of a snapshot are `STEP_S` apart. Clients act in
        between.
        """
        node.env.clock.trust_wall()
        sessions = node.sessions
        sessions.startup.later = sessions.snapshots.later = lambda step: self.later(STEP_S, step)

    @property
    def run_id(self) -> str:
        """The run in the rows of the event log."""
        return str(self.seed)

    def _wall_ms(self) -> float:
        return EPOCH_MS + self.loop.now_s * 1000 + self.wall_off_ms

    def _mono_ms(self) -> float:
        return self.loop.now_s * 1000

    def _uptime_ms(self) -> int:
        """Milliseconds since the boot of the machine. This clock also runs while the machine is frozen."""
        return int(self.loop.now_s * 1000)

    def _mono_ns(self) -> int:
        return int(self.loop.now_s * 1e9)

    def _log_clock(self, clock: ClusterClock) -> Callable[[], int]:
        ahead = 0 if self.log is None else self.log.ahead_ms
        return (lambda: clock.now_ms() + ahead) if ahead else clock.now_ms

    def promised(self, node: Node) -> list[str]:
        """Returns the settings that promises depend on, as a real process names them in its event log."""
        options = node.options
        expiry_s = options.persistent_client_expiration_s
        others = {
            "message_store.engine": "leveldb",
            "message_store.durability": node.env.store.durability,
            "persistent_client_expiration": f"{expiry_s}s" if expiry_s else "never",
            "eventlog.clients": ",".join(options.eventlog_clients),
            "eventlog.topics": ",".join(options.eventlog_topics),
            "eventlog.redact": "off",
        }
        return promised(lambda key: others[key] if key in others else getattr(options, key))

    def _keep_clock(self) -> None:
        node = self.node
        if node is not None and not node.closing:
            self._save_clock()
            self.later(CLOCK_EVERY_S, self._keep_clock)

    def _save_clock(self) -> None:
        assert self.node is not None
        saved = self.node.env.clock.saved(self._uptime_ms(), self.machine)
        self.node.env.store.put(CLOCK_KEY, encode_saved(saved))

    def kill(self) -> None:
        """End the process between two instructions. The connections of its clients are reset."""
        self._note_log()
        self.node = None
        self._stopped = None
        self._forget_wake()
        pipes, self.pipes = self.pipes, []
        for pipe in pipes:
            pipe.gone = None
            pipe.break_off()

    def stop(self, then: Callable[[], None]) -> None:
        """Stop in order: close the connections, commit everything within `STOP_S`, then call `then`."""
        node = self.node
        assert node is not None and not node.closing
        self._stopped = then
        node.close()
        self.say_goodbye(lambda: node.env.store.flush(self._stop_ended))
        self.later(STOP_S, self._stop_ended)

    def say_goodbye(self, then: Callable[[], None]) -> None:
        """Inform the other nodes of an orderly stop, then call `then`. A standalone node has none."""
        then()

    def _stop_ended(self) -> None:
        node = self.node
        assert node is not None
        self.unwritten = node.env.store.bytes_waiting > 0
        node.stopped()
        self._note_log()
        self.node = None
        node.env.store.close()
        self._forget_wake()
        self.pipes.clear()
        then, self._stopped = self._stopped, None
        assert then is not None
        then()

    # -- ports: functions of a dead process are never called

    def soon(self, function: Callable[[], None]) -> None:
        """The `schedule` port: run a function at the end of the turn, unless the process has ended by then."""
        life = self.life
        self.loop.call_soon(lambda: function() if self.alive(life) else None)

    def later(self, delay_s: float, function: Callable[[], None]) -> Scheduled:
        """Run a function after `delay_s` seconds, unless the process has ended by then."""
        life = self.life
        return self.loop.call_later(delay_s, lambda: function() if self.alive(life) else None)

    def alive(self, life: int) -> bool:
        """Whether the process of that `life` still runs."""
        return life == self.life and self.node is not None

    def _wake_port(self, when_ms: int) -> None:
        node = self.node
        now = EPOCH_MS + self.loop.now_s * 1000 if node is None else node.env.clock.now_ms()
        delay_s = (when_ms - now) / 1000
        due_s = self.loop.now_s + delay_s
        if self._wake is not None and self._wake[0].function is not None and self._wake[1] <= due_s:
            return
        self._forget_wake()
        self._wake = self.later(delay_s, self._woken), due_s

    def _woken(self) -> None:
        self._wake = None
        if self.node is not None:
            self.node.env.wake()

    def _forget_wake(self) -> None:
        if self._wake is not None:
            self._wake[0].cancel()
            self._wake = None

    def _spawn(self, work: Awaitable[Verdict], then: Callable[[Verdict], None]) -> None:
        raise AssertionError("plugins of the simulation answer at once")

    def _log(self, level: str, line: str) -> None:
        self.lines.append((level, line))

    # -- connections

    def connect(self, rng: Random, delay_s: tuple[float, float] = (0.0, 0.0), **listener: Any) -> Pipe | None:
        """Connect a client. Returns None if the node accepts no connections. `delay_s` is a range in seconds."""
        node = self.node
        if node is None or node.closing:
            return None
        pipe = Pipe(self.loop, rng, delay_s)
        settings = _listener(listener)
        self._connections += 1
        connection = node.accept(pipe, ConnectionOrigin("127.0.0.1", 40000 + self._connections, settings))
        pipe.port = pipe.port or connection
        pipe.to_node.deliver = pipe.receive
        pipe.to_client.mark = self.mark
        pipe.to_client.pressure = partial(self._pressure, pipe)
        pipe.gone = partial(self._lost, pipe)
        self.accepted(pipe)
        self.pipes.append(pipe)
        return pipe

    def accepted(self, pipe: Pipe) -> None:
        """Hook: called for each new connection, for machines that can be suspended."""

    def _pressure(self, pipe: Pipe, writable: bool) -> None:
        if pipe.gone is not None and pipe.port is not None:
            pipe.port.writable(writable)

    def _lost(self, pipe: Pipe, reason: str) -> None:
        if pipe in self.pipes and pipe.port is not None:
            self.pipes.remove(pipe)
            pipe.port.lost(reason)


_PLAIN = ListenerSettings(type="tcp", name="default", host="127.0.0.1", port=1883)


def _listener(options: dict[str, Any]) -> ListenerSettings:
    if not options:
        return _PLAIN
    return ListenerSettings(**{"type": "tcp", "name": "default", "host": "127.0.0.1", "port": 1883, **options})


def _plugin_failed(plugin: str, hook: str, error: BaseException) -> None:
    raise AssertionError(f"plugin {plugin} failed in {hook}") from error

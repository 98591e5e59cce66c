"""The shell of a node: asyncio, the disk, the listeners, the clocks; implements all ports of the core.

`Server` runs inside a running loop; `daemon` makes a process of it, tests and embedders use it directly.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ...analytics.schema import LEVELS, MESSAGE, SESSION
from ...cluster.clock import ClusterClock, SavedTime, decode_saved, encode_saved
from ...cluster.links.ports import Timer
from ...cluster.ports import Settings as ClusterSettings
from ...cluster.transport.grpc_wire import GrpcTransport
from ...cluster.transport.wire import Transport
from ...configs import Settings
from ...storage import keys
from ...storage.directory import DataDirectory
from ...storage.durations import Durations
from ...storage.engine import Durability, Engine, StorageError
from ...storage.leveldb import LevelDBEngine, LevelDBOptions
from ...storage.memory import VolatileMemoryEngine
from ...storage.store import Store
from ..clustering.runtime import OF_THE_MACHINE, Clocks, ClusterRuntime
from ..environment import Ports
from ..listeners.limiter import limiter_options
from ..listeners.listeners import Listeners
from ..node import Node
from ..options import promised
from ..plugins.builtin import BuiltinPlugins
from ..plugins.hooks import Hooks, Refuse, Verdict
from ..reporting.events import Events, Sink
from ..reporting.journal import FLUSH_S, Journal
from ..reporting.redaction import Redacting, Redactor
from ..runtime_settings import Change, RuntimeSettings
from .conversion import convert
from .descriptors import Descriptors
from .eventlog import EventLog
from .eventlog_key import read_key
from .start_checks import checked_links
from .stats import StatsReporter
from .systree import Systree

CLOSE_GRACE_S = 1.0
"""How long a stop waits for clients to take what was written to them."""
STOP_S = 10.0
"""How long a stop waits for the disk."""
LAST_WORK = "last work"
"""Prefix of the names of threads for a stop."""
_CLOCK_KEY = b"nclock"
_CLOCK_EVERY_S = 60.0
_WATCH_S = 5.0

Log = Callable[[str, str], None]


class Server:
    """One node with its listeners. `start`, then `stop`; both once. `cluster` is None without a `listener.vmq`.

    `transport` leads to the other nodes in place of gRPC, `tune` changes the numbers of the cluster. Each of `sinks`
    takes every row of the event log, at level `message`. `chance` makes the source of chance of a boot. `clocks` are in
    place of the machine's.

    `start` raises `StorageError` for the data directory, `ListenError` for a listener, or an error of a plugin; then
    nothing is left running.
    """

    def __init__(
        self,
        settings: Settings,
        log: Log,
        transport: Transport | None = None,
        tune: Callable[[ClusterSettings], ClusterSettings] | None = None,
        sinks: Sequence[Sink] = (),
        chance: Callable[[int], random.Random] | None = None,
        clocks: Clocks = OF_THE_MACHINE,
    ) -> None:
        self.settings = settings
        self.log = Journal(log, debug=settings["log.console.level"] == "debug")
        self.hooks = Hooks(on_error=self._plugin_failed, spawn=self._spawn_task, within=_within, apart=_apart)
        self.descriptors = Descriptors.of_this_process()
        self.listeners = Listeners(self.log, limiter_options(settings, self.descriptors.for_connections))
        self.node: Node
        self.store: Store
        self.runtime: RuntimeSettings
        self.systree: Systree
        self.cluster: ClusterRuntime | None = None
        self._transport = transport
        self._tune = tune
        self._sinks = tuple(sinks)
        self._chance = chance
        self._wall_ms, self._mono_ms = clocks
        self._machine = machine_boot() if clocks is OF_THE_MACHINE else ""
        self._meta: Store | None = None
        self._watched: list[tuple[LevelDBEngine, Store]] = []
        self._loop: asyncio.AbstractEventLoop
        self._directory: DataDirectory | None = None
        self._engine: Engine | None = None
        self._plugins: BuiltinPlugins | None = None
        self.eventlog: EventLog | None = None
        self._wake: asyncio.TimerHandle | None = None
        self._wake_s = 0.0
        self._tasks: set[asyncio.Task[Any]] = set()
        self.started_s = time.monotonic()
        self.when_renumbered: Callable[[], None] = lambda: None
        """Called when the data directory has another number of starts: the node can join after its next start."""

    @property
    def data_dir(self) -> Path:
        """Where the node keeps its data."""
        return Path(str(self.settings["platform_data_dir"]))

    @property
    def commits(self) -> Durations:
        """How long the commits of the message store took; without any where it is in memory."""
        return self._engine.commits if isinstance(self._engine, LevelDBEngine) else Durations()

    async def start(self) -> None:
        """Open the data, bring the sessions back, open the listeners."""
        self._loop = asyncio.get_running_loop()
        try:
            directory = self._open_disk()
            if isinstance(self._engine, LevelDBEngine):
                await convert(directory, self._engine, self.log)
            known = self._open(directory)
            if self.cluster is not None:
                await known  # its routes tell the other nodes about all subscriptions
                await self.cluster.start()
                self._share_settings(self.cluster)
            assert self._plugins is not None
            self._plugins.start()
            await self.listeners.start(self.mqtt_listeners(), self.node.accept)
            await known
        except BaseException:
            await self.stop()
            raise
        self._keep_clock()
        self._spawn_task(self._watch_folders())
        self._flush_log()

    def mqtt_listeners(self) -> list[Any]:
        """The configured listeners that speak MQTT."""
        return [each for each in self.settings.listeners() if each.type in ("tcp", "ssl", "ws", "wss")]

    def _open_disk(self) -> DataDirectory:
        settings = self.settings
        self._directory = directory = DataDirectory(self.data_dir, str(settings["nodename"]), lambda: str(uuid.uuid4()))
        durability: Durability = "sync" if settings["message_store.durability"] == "sync" else "os"
        in_memory = settings["message_store.engine"] == "memory"
        if directory.boot == 1:
            self.log(
                "notice", f"{directory.path} is a new data directory: the node begins without sessions and messages"
            )
        directory.note_writes(None if in_memory else durability, machine_boot())
        self._say_whether_complete(directory, not in_memory and durability == "os")
        self._engine = self._make_engine(directory.messages, durability)
        return directory

    def _say_whether_complete(self, directory: DataDirectory, unsynced: bool) -> None:
        if directory.incomplete == directory.boot:
            self.log(
                "warning",
                "the message store may lack its last writes: the machine has lost power while they were not synced, "
                "the store was in memory, or a repair has dropped keys. Other nodes with its slots come first",
            )
        if unsynced and not machine_boot():
            self.log(
                "warning",
                "this system has no id for the boot of its kernel (/proc/sys/kernel/random/boot_id): a kill of this "
                "process counts as a loss of power, unless message_store.durability is sync",
            )

    def _open(self, directory: DataDirectory) -> asyncio.Future[None]:
        """Start the node. Returns a future that is done when the node knows all subscriptions.

        A client can connect before.
        """
        settings = self.settings
        name = str(settings["nodename"])
        assert self._engine is not None
        self.store = Store(self._engine, self._loop.call_soon, self._loop.call_later)
        self._watch(self._engine, self.store)
        clock = self._make_clock(decode_saved(self.store.get(_CLOCK_KEY)))
        self._plugins = BuiltinPlugins(settings, self.hooks, self.log)
        self.runtime = RuntimeSettings(settings, self.store, name)
        for problem in self.runtime.problems:
            self.log("warning", problem)
        level = LEVELS[self.runtime.options.eventlog_level]
        run_id = directory.cluster_id
        redactor = Redactor(read_key(Path(settings["eventlog.redact_key"]))) if settings["eventlog.redact"] else None
        events = Events(name, directory.boot, run_id, clock.now_ms, time.monotonic_ns, level)
        if level:
            self.eventlog = EventLog.from_settings(
                settings, run_id, name, directory.boot, self.log, machine_boot(), level
            )
            events.write_to(self.eventlog if redactor is None else Redacting(self.eventlog, redactor))
        if settings["log.console"] != "off":
            events.set_level(max(level, SESSION))
            events.add(self.log.event, SESSION)
        for sink in self._sinks:
            events.set_level(MESSAGE)
            events.add(sink)
        events.observe(self._former_stamp())
        rng = self._chance(directory.boot) if self._chance is not None else random.SystemRandom()
        ports = Ports(clock, self.store, self._loop.call_soon, self._wake_port, self._spawn, rng, self.log)
        self.node = Node(name, directory.boot, self.runtime.options, self.hooks, events, ports)
        clock.on_set = self._save_clock
        self._open_cluster(directory, rng)
        known = self._loop.create_future()
        startup = self.node.sessions.startup
        startup.failed = known.set_exception
        startup.when_ready(lambda: known.set_result(None))
        former = self.eventlog.former if self.eventlog is not None else None
        self.node.open(promised(self.runtime.in_force), None if former is None else former.fields())
        self.systree = Systree(self.node)
        self.systree.start()
        self.runtime.applied, self.runtime.told = self._settings_changed, self.log
        StatsReporter(self.node).start()
        return known

    def _former_stamp(self) -> int:
        """The stamp of the last event of the process before this one; 0 if unknown."""
        former = self.eventlog.former if self.eventlog is not None else None
        return 0 if former is None else former.stamp

    def _make_clock(self, saved: SavedTime | None) -> ClusterClock:
        """Cluster time: where the last process left it, if the machine's own time since then is known."""
        return ClusterClock(self._wall_ms, self._mono_ms, saved, self._uptime_ms(), self._machine)

    def _uptime_ms(self) -> int:
        return int(uptime_ms() if self._machine else self._mono_ms())

    def _save_clock(self) -> None:
        saved = self.node.env.clock.saved(self._uptime_ms(), self._machine)
        self.store.put(_CLOCK_KEY, encode_saved(saved))

    def _open_cluster(self, directory: DataDirectory, rng: random.Random) -> None:
        links = checked_links(self.settings, self.log)
        if links is None:
            self.node.env.clock.trust_wall()
            return
        engine = self._make_engine(directory.meta, "sync")
        self._meta = Store(engine, self._loop.call_soon, self._loop.call_later)
        self._watch(engine, self._meta)
        self.cluster = ClusterRuntime(
            self.node,
            directory,
            self._meta,
            self._transport or GrpcTransport(links.tls, cookie=links.cookie, log=self.log, data_port=links.data_port),
            links.listen,
            links.host,
            links.discovery,
            self.listeners.suspend,
            links.settings if self._tune is None else self._tune(links.settings),
            self._later,
            rng,
            (self._wall_ms, self._mono_ms),
        )
        self.cluster.when_renumbered = lambda: self.when_renumbered()
        self.cluster.in_force = self.runtime.in_force

    def _share_settings(self, cluster: ClusterRuntime) -> None:
        self.runtime.share(cluster.config)
        for problem in self.runtime.problems:
            self.log("warning", problem)
        cluster.config.listeners.append(self.runtime.changed)

    def _settings_changed(self, changes: Sequence[Change]) -> None:
        """Apply the settings that need an action at once; all others are read when they are used."""
        node = self.node
        node.env.wake()
        for key, old, new in changes:
            node.env.event("config.change", key=key, old=old, new=new)
            if key == "eventlog.level":
                node.env.observer.choice.follow_level(LEVELS[node.options.eventlog_level])
            elif key in ("eventlog.clients", "eventlog.topics"):
                node.env.observer.choice.filter(node.options.eventlog_clients, node.options.eventlog_topics)
        self.hooks.notify("change_config", {change.key: change.new for change in changes})
        if any(change.key.startswith("systree_") for change in changes):
            self.systree.start()
        if any(change.key.endswith("_during_netsplit") for change in changes):
            node.policy.view_state = node.policy.view_state  # publishes that were parked may go on

    def _make_engine(self, folder: Path, durability: Durability) -> Engine:
        settings = self.settings
        log = self._directory is not None and folder == self._directory.meta  # of the cluster: never in memory alone
        if settings["message_store.engine"] == "memory" and not log:
            self.log("warning", "message_store.engine = memory: nothing survives the end of this process")
            if (folder / "CURRENT").exists():
                said = "the node ignores the sessions and messages that an earlier start has left in"
                self.log("warning", f"message_store.engine = memory: {said} {folder}")
            return VolatileMemoryEngine(self._loop.call_soon)
        options = LevelDBOptions(
            block_size=int(settings["leveldb.block.size"]),
            compression=bool(settings["leveldb.compression"]),
            bloom_filter_bits=10 if settings["leveldb.bloomfilter"] else 0,
            max_open_files=self.descriptors.per_database,
        )
        between = () if log else keys.fences()
        return LevelDBEngine(folder, self._loop.call_soon_threadsafe, durability, options, between)

    async def reload(self) -> list[str]:
        """Read the files of passwords and permissions that have changed, and the certificates of the MQTT listeners.
        Returns a line for each listener that failed; its earlier certificate stays in force."""
        assert self._plugins is not None
        await self._plugins.reload()
        return await self.listeners.reload_tls()

    async def await_copies(self, at_once: asyncio.Event) -> None:
        """This node is about to stop: serve until other nodes have copies of its slots, for at most `queue_stop_wait`
        seconds, or until `at_once` is set."""
        wait_s = int(self.settings["queue_stop_wait"])
        if self.cluster is not None and wait_s:
            await self.cluster.await_copies(wait_s, at_once)

    async def stop(self) -> None:
        """Close the connections, commit everything, release the directory; close databases only if the disk answers."""
        answers = True
        if hasattr(self, "node"):
            self.node.close()
        await self.listeners.close(CLOSE_GRACE_S)
        if self.cluster is not None:
            await self.cluster.stop()
        if hasattr(self, "node"):
            self._save_clock()
            answers = await self._flush()
            self.node.stopped()
        if self._plugins is not None:
            await self._plugins.close()
        if self._wake is not None:
            self._wake.cancel()
        await self._end_tasks()
        if answers:  # else a write is under way, for which closing waits: the process ends with it
            self._close_databases()
            await self._note_synced()
        if self.eventlog is not None:
            await self._in_own_thread(self.eventlog.close)
        if self._directory is not None:
            self._directory.close()
        self.log.flush()

    async def _in_own_thread(self, work: Callable[[], None]) -> None:
        """Plugins may have left work that hangs in all threads of the loop."""
        await self._loop.run_in_executor(ThreadPoolExecutor(1, LAST_WORK), work)

    async def _end_tasks(self) -> None:
        """Cancel all tasks and wait for their end, except for a plugin that ignores the cancellation."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_GRACE_S)

    def _close_databases(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
        elif self._engine is not None:
            self._engine.close()
        if self._meta is not None:
            self._meta.close()

    async def _note_synced(self) -> None:
        """Sync the closed database of messages: a loss of power from now on costs nothing."""
        directory = self._directory
        if directory is None or not hasattr(self, "store") or not isinstance(self._engine, LevelDBEngine):
            return
        try:
            await asyncio.wait_for(self._in_own_thread(directory.sync_messages), STOP_S)
            directory.note_synced()
        except (OSError, TimeoutError) as error:
            self.log("warning", f"the message store was not synced at the stop: {error!r}")

    async def _flush(self) -> bool:
        """Commit all writes. True if the disk answers in time, even if it is full."""
        done = asyncio.Event()
        self.store.flush(done.set)
        try:
            await asyncio.wait_for(done.wait(), STOP_S)
        except TimeoutError:
            self.log(
                "error", f"message store: not everything could be written within {STOP_S:.0f} s: {self.store.detail}"
            )
        return done.is_set() or not self.store.accepting

    # -- ports

    def _later(self, delay_s: float, work: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay_s, work)

    def _wake_port(self, when_ms: int) -> None:
        # Use the loop's clock: the cluster time may have been set since the other deadline was computed.
        now = self.node.env.now if hasattr(self, "node") else int(self._wall_ms())
        due_s = self._loop.time() + max(0, when_ms - now) / 1000
        if self._wake is not None:
            if self._wake_s <= due_s:
                return
            self._wake.cancel()
        self._wake_s = due_s
        self._wake = self._loop.call_at(due_s, self._woken)

    def _woken(self) -> None:
        self._wake = None
        self.node.env.wake()

    def _spawn(self, work: Awaitable[Verdict], then: Callable[[Verdict], None]) -> None:
        async def run() -> None:
            try:
                verdict = await work
            except Exception as error:
                self.log("error", f"a plugin's answer failed: {error!r}")
                verdict = Refuse("plugin_error")
            then(verdict)

        self._spawn_task(run())

    def _spawn_task(self, work: Coroutine[Any, Any, Any]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _plugin_failed(self, plugin: str, hook: str, error: BaseException) -> None:
        self.log("error", f"plugin {plugin}, hook {hook}: {type(error).__name__}: {error}")

    def _flush_log(self) -> None:
        self.log.flush()
        if not self.node.closing:
            self._loop.call_later(FLUSH_S, self._flush_log)

    def _watch(self, engine: Engine, store: Store) -> None:
        if isinstance(engine, LevelDBEngine):
            self._watched.append((engine, store))

    async def _watch_folders(self) -> None:
        """Check that the folders of the databases exist, also while nothing is written."""
        while True:
            await asyncio.sleep(_WATCH_S)
            for engine, store in self._watched:
                try:
                    await asyncio.to_thread(engine.check)
                except StorageError as error:
                    store.fail(str(error))

    def _keep_clock(self) -> None:
        """Save the cluster time, so that it does not go back if the wall clock was set back before a restart."""
        if self.node.closing:
            return
        self._save_clock()
        if self.node.env.clock.alarmed:
            self.log(
                "warning", f"the wall clock is {self.node.env.clock.off_ms / 1000:.1f} s off cluster time; slewing"
            )
        self._loop.call_later(_CLOCK_EVERY_S, self._keep_clock)


PLUGIN_ANSWER_S = 60.0
"""Time limit for one answer of an asynchronous plugin, in seconds."""


def machine_boot() -> str:
    """The id of this boot of the machine; "" if the system has none (Linux has one)."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def uptime_ms() -> float:
    """Milliseconds since the machine was booted, also those in which it was suspended, where the system counts them."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) * 1000


async def _within(work: Awaitable[object]) -> object:
    return await asyncio.wait_for(work, PLUGIN_ANSWER_S)


class PluginCancelledError(Exception):
    """A plugin has raised CancelledError, or waited for something that was cancelled."""


async def _apart(work: Awaitable[object]) -> object:
    """A plugin's CancelledError is an error of the plugin, unless the node cancels the task, as it does at its stop."""
    try:
        return await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise PluginCancelledError("the plugin waited for a task that was cancelled") from None


def tune_gc() -> None:
    """Keep the collector from stopping the loop: a full collection took 1.5-3 s at a million subscriptions, and one of
    50,000 new objects takes 43 to 176 ms while thousands of clients connect. One of the middle generation took 310 to
    345 ms with a million allocations (100 young collections), and at most 62 ms with 100,000; now it has 50,000."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 5, 400)

"""A `Server` that a test can kill, pause and inspect. The broker is unchanged; only its ports to the outside differ.

These are the listeners' `accept` (a `FaultGate`), the storage engine (a `MemoryDisk` if the test wants one), the event
log (rows in memory, at level `message`), the random numbers (from the seed), and the transport to other nodes.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from ...broker.clustering.runtime import OF_THE_MACHINE, Clocks
from ...broker.connection.transport import MakeConnection
from ...broker.listeners.connection import Connection
from ...broker.listeners.limiter import LimiterOptions, limiter_options
from ...broker.listeners.listeners import Listeners
from ...broker.process.server import Server
from ...broker.reporting.events import Row
from ...cluster.clock import ClusterClock, SavedTime
from ...cluster.links.ports import Timer
from ...cluster.ports import Settings as ClusterSettings
from ...cluster.transport.wire import Transport
from ...configs import ListenerSettings, Settings
from ...storage.engine import Durability, Engine
from ...storage.leveldb import LevelDBEngine, LevelDBOptions
from ..faults.fault_gate import FaultGate, GatedTimer
from ..faults.packet_drops import Drop
from .idle import IdleDetector
from .memory_disk import Disks, MemoryDisk, MemoryDiskEngine
from .node_time import AdvancingClock, NodeTime

_THREADS = ("leveldb ", "eventlog")
_RESET = struct.pack("ii", 1, 0)
_WRITE_BUFFER = 1 << 20
"""Bytes of LevelDB's write buffer: small, because a start takes 25 ms for each full MiB of it."""


def reset(connection: Connection) -> None:
    """Close a connection with a TCP reset, as the system does for a killed process with unread input."""
    if connection.transport is not None:
        handle = connection.transport.get_extra_info("socket")
        if handle is not None and handle.family != socket.AF_UNIX:
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    connection.abort()


class _GatedListeners(Listeners):
    """Listeners that hand each connection to the `FaultGate` of their server."""

    def __init__(self, server: InProcessServer, log: Callable[[str, str], None], options: LimiterOptions) -> None:
        super().__init__(log, options)
        self._server = server

    async def start(self, settings: Iterable[ListenerSettings], make_connection: MakeConnection) -> None:
        """Start the listeners with the gate's `accept` in place of `make_connection`; the gate calls the node."""
        await super().start(settings, self._server.gate.accept)


class InProcessServer(Server):
    """One boot of a node under test. `disks` None means LevelDB; `sink` gets every row of the event log.

    `transport` makes the transport to other nodes from this boot's gate; None means gRPC without faults. `tune` changes
    the settings of the cluster. `clocks` replace the clocks of the machine. `time` is that of the node, over its boots.
    """

    def __init__(
        self,
        settings: Settings,
        log: Callable[[str, str], None],
        disks: Disks | None,
        sink: Callable[[Row], None],
        activity: IdleDetector,
        seed: str,
        drops: list[Drop],
        transport: Callable[[FaultGate], Transport] | None = None,
        tune: Callable[[ClusterSettings], ClusterSettings] | None = None,
        clocks: Clocks = OF_THE_MACHINE,
        time: NodeTime | None = None,
    ) -> None:
        self._dead = False

        def say(level: str, text: str) -> None:
            if not self._dead:
                log(level, text)

        self.gate = FaultGate(lambda link, origin: self.node.accept(link, origin), reset, activity, drops)
        super().__init__(
            settings,
            say,
            transport(self.gate) if transport is not None else None,
            tune,
            (sink,),
            lambda boot: random.Random(f"{seed} {boot}"),
            clocks,
        )
        self.listeners = _GatedListeners(self, say, limiter_options(settings))
        self._disks = disks
        self._sink = sink
        self._time = time or NodeTime()
        self._threads: list[threading.Thread] = []

    async def start(self) -> None:
        """As `Server.start`."""
        before = set(threading.enumerate())
        await super().start()
        fresh = set(threading.enumerate()) - before
        self._threads = [thread for thread in fresh if thread.name.startswith(_THREADS)]

    def _make_engine(self, folder: Path, durability: Durability) -> Engine:
        if self._disks is not None:
            disk = self._disks.setdefault(folder.name, MemoryDisk())
            return MemoryDiskEngine(disk, lambda work: self._loop.call_soon(self.gate.when_awake, work))
        return LevelDBEngine(folder, self._committed, durability, LevelDBOptions(write_buffer_size=_WRITE_BUFFER))

    def _former_stamp(self) -> int:
        return max(self._time.stamp, super()._former_stamp())

    def _make_clock(self, saved: SavedTime | None) -> ClusterClock:
        self._clock = AdvancingClock(self._time, self._wall_ms, self._mono_ms, saved, self._uptime_ms(), self._machine)
        return self._clock

    def _uptime_ms(self) -> int:
        return super()._uptime_ms() + self._time.skipped_ms

    def _committed(self, work: Callable[[], None]) -> None:
        """Call `work` in the loop, behind the gate. The thread of the disk calls this after a commit."""
        self._loop.call_soon_threadsafe(self.gate.when_awake, work)

    def _wake_port(self, when_ms: int) -> None:
        if not self._dead:
            super()._wake_port(when_ms)

    def _woken(self) -> None:
        self.gate.when_awake(super()._woken)

    def _later(self, delay_s: float, work: Callable[[], None]) -> Timer:
        return GatedTimer(self.gate, self._loop, delay_s, work)

    @property
    def running(self) -> bool:
        """Whether the server is started, and neither stopped nor killed."""
        return hasattr(self, "node") and not self.node.closing

    def advance(self, by_ms: int) -> None:
        """Set cluster time ahead; `do_what_is_due` follows when the clocks of all nodes are set."""
        self._clock.advance(by_ms)

    def do_what_is_due(self) -> None:
        """Run the timers that are due, the first ones at once; on a paused server after the pause."""
        if self._wake is not None:
            self._wake.cancel()
        self._woken()

    async def kill(self) -> None:
        """End as kill -9 does: flush and log nothing, tell nobody, publish no wills; clients get a TCP reset."""
        self._dead = True
        self.gate.cut()
        self.node.closing = True
        self.node.env.events.remove(self._sink)
        if self._wake is not None:
            self._wake.cancel()
        for task in list(self._tasks):
            task.cancel()
        self.store.close()
        if self._meta is not None:
            self._meta.close()
        if self.cluster is not None:
            # the system closes the sockets of a dead process: other nodes see their streams end at once
            await self.cluster.stop()
        await self.listeners.close(0)
        assert self._plugins is not None and self._directory is not None
        await self._plugins.close()
        self._directory.close()

    def left_behind(self) -> list[str]:
        """Returns descriptions of what an ended server has not released: tasks, threads, listeners, connections."""
        found = [f"task {task.get_coro()!r}" for task in self._tasks if not task.done()]
        found += [f"listener {row.key}" for row in self.listeners.show()]
        if self.listeners.active():
            found.append(f"{self.listeners.active()} connections")
        found += [f"thread {thread.name}" for thread in self._threads if thread.is_alive()]
        return found

"""A node of a cluster under test. Its port, disk and log stay; its server is a new one after each start."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from msgspec import structs

from ...broker.clustering.runtime import OF_THE_MACHINE
from ...broker.node import Node
from ...broker.reporting.events import Row
from ...configs import ConfigError, Settings, load
from ..faults.packet_drops import Drop, FaultError
from ..hidden_frames import of_documented_errors
from ..reserved_port import reserve
from .idle import IdleDetector
from .in_process import InProcessServer
from .memory_disk import Disks
from .node_links import NodeLinks
from .node_time import NodeTime

__tracebackhide__ = of_documented_errors

LISTENER = "listener.tcp.default"
CLUSTER_LISTENER = "listener.vmq.default"
NOBODY = "a connection before CONNECT"
_OVER = "notice: the test closes the cluster"


class LeakError(AssertionError):
    """A broker has ended and left a task, a thread, a connection or a listener behind."""


class NodeHandle:
    """One node. A test reads its properties; to start, stop or pause the node it calls the methods of the cluster.

    `number` counts from 0. `host` and `port` are those of the TCP listener and stay the same over restarts: a bound
    socket that never listens reserves the port until `release`. `sink` gets the rows of the event log.
    """

    def __init__(
        self,
        number: int,
        conf: Mapping[str, str],
        directory: Path,
        disks: Disks | None,
        seed: int,
        activity: IdleDetector,
        sink: Callable[[Row], None],
        node_links: NodeLinks | None = None,
    ) -> None:
        self.number = number
        self.name = conf["nodename"]
        self.host = "127.0.0.1"
        self.directory = directory
        self.disks = disks
        self.drops: list[Drop] = []
        self.log: deque[str] = deque(maxlen=1000)
        """The last 1,000 log lines, as `level: text`."""
        self._seed = f"{seed} {self.name}"
        self._activity = activity
        self._sink = sink
        self._node_links = node_links
        self._server: InProcessServer | None = None
        self._time = NodeTime()
        self._changing = asyncio.Lock()
        """Held while the node starts or ends: another start or end waits for it."""
        self._reserved = reserve(self.host)
        self.port: int = self._reserved.getsockname()[1]
        self._conf = {**conf, LISTENER: f"{self.host}:{self.port}", "platform_data_dir": str(directory)}
        if node_links is not None:
            self._conf[CLUSTER_LISTENER] = node_links.address(number)

    @property
    def url(self) -> str:
        """The address, mqtt://HOST:PORT."""
        return f"mqtt://{self.host}:{self.port}"

    @property
    def up(self) -> bool:
        """Whether the node runs; a paused node counts as running."""
        return self._server is not None

    @property
    def paused(self) -> bool:
        """Whether the node is paused."""
        return self._server is not None and self._server.gate.frozen

    @property
    def server(self) -> InProcessServer:
        """The running server. Raises `FaultError` if the node is down."""
        if self._server is None:
            raise FaultError(f"node {self.number} is down")
        return self._server

    @property
    def node(self) -> Node:
        """The broker core, for tests of plugins and the like. Raises `FaultError` if the node is down."""
        return self.server.node

    @property
    def sees(self) -> str:
        """How much of the cluster the node sees: "whole", "majority" (a node is missing) or "minority" (no lease).

        Raises `FaultError` if the node is down.
        """
        return self.node.policy.view_state.value

    def ports(self) -> dict[str, int]:
        """Returns the ports of all running MQTT listeners, by the name of the listener."""
        return {row.key: row.port for row in self.server.listeners.show()}

    def address(self, listener: str) -> tuple[str, int]:
        """Returns host and port of a listener, by its key. Raises `FaultError` if the node has no such listener."""
        if listener == LISTENER:
            return self.host, self.port  # also while the node is down
        ports = self.ports()
        if not ports.get(listener):
            raise FaultError(f"node {self.number} has no {listener}: it has {', '.join(sorted(ports))}")
        return self.host, ports[listener]

    # -- life; called by the cluster

    async def start(self) -> None:
        """Start a server on the node's disk.

        Raises `FaultError` if the node is up, `ConfigError`, and the errors of `Server.start`.
        """
        async with self._changing:
            await self._start()

    async def _start(self) -> None:
        if self._server is not None:
            raise FaultError(f"node {self.number} is up")
        settings = self._settings()
        node_links = self._node_links
        server = InProcessServer(
            settings,
            self._log_line,
            self.disks,
            self._sink,
            self._activity,
            self._seed,
            self.drops,
            None if node_links is None else partial(node_links.transport, self.number),
            None if node_links is None else node_links.tune,
            OF_THE_MACHINE if node_links is None else (node_links.clock.wall_ms, node_links.clock.mono_ms),
            self._time,
        )
        await server.start()
        self._server = server

    def _settings(self) -> Settings:
        try:
            return load(None, {}, self._conf)
        except ConfigError as error:  # for a test, `conf` is the source of all values
            raise ConfigError(structs.replace(each, file="conf") for each in error.problems) from None

    async def stop(self) -> None:
        """Stop in order: write all data and tell the clients. Raises `LeakError`; `FaultError` if the node is down."""
        async with self._changing:
            await self._stop()

    async def end(self, leaks: list[str]) -> None:
        """Stop the node if it runs or is starting, and release its port. Adds the text of a `LeakError` to `leaks`."""
        try:
            async with self._changing:
                if self.up:
                    await self._stop()
        except LeakError as error:
            leaks.append(str(error))
        finally:
            self.release()

    async def _stop(self) -> None:
        server, self._server = self.server, None
        self._awake()
        server.gate.thaw()
        await server.stop()
        await self._ended(server)

    async def kill(self) -> None:
        """End as kill -9 does: only committed data remains. Raises `LeakError`, or `FaultError` if the node is down."""
        async with self._changing:
            server, self._server = self.server, None
            self._awake()
            server.node.env.event("fault.kill", nodes=[self.name])
            await server.kill()
            await self._ended(server)

    def pause(self) -> None:
        """Pause the node, as SIGSTOP does: connections stay open; the node reads and writes nothing, no timer fires.

        Raises `FaultError` if the node is down or paused.
        """
        if self.paused:
            raise FaultError(f"node {self.number} is paused")
        self.server.node.env.event("fault.pause", nodes=[self.name])
        self.server.gate.freeze()
        if self._node_links is not None:
            self._node_links.network_faults.paused[self.number] = None

    def resume(self) -> None:
        """Let the node continue, as SIGCONT does: it first does the work that was held during the pause.

        Raises `FaultError` if the node is not paused.
        """
        if not self.paused:
            raise FaultError(f"node {self.number} is not paused")
        self._awake()
        self.server.gate.thaw()
        self.server.node.env.event("fault.end", nodes=[self.name], detail="pause")

    def advance(self, by_ms: int) -> None:
        """Set the node's cluster time ahead. If the node is down, it starts with the later time."""
        self._time.skipped_ms += by_ms
        if self._server is not None:
            self._server.advance(by_ms)

    def do_what_is_due(self) -> None:
        """Let the node run the timers that are due, after `advance` of all nodes; does nothing if the node is down."""
        if self._server is not None:
            self._server.do_what_is_due()

    def _awake(self) -> None:
        if self._node_links is not None:
            self._node_links.network_faults.paused.pop(self.number, None)

    def release(self) -> None:
        """Release the reserved port."""
        self._reserved.close()

    async def _ended(self, server: InProcessServer) -> None:
        """Remember where the boot's event log ended. Raises `LeakError` if the boot has left something behind."""
        self._time.stamp = server.node.env.events.stamp()
        await asyncio.sleep(0)
        if left := server.left_behind():
            raise LeakError(f"node {self.number} left behind: {', '.join(left)}")

    @property
    def log_of_test(self) -> list[str]:
        """The lines of `log` before the cluster began to close: after that, each node misses those that end first."""
        lines = list(self.log)
        return lines[: lines.index(_OVER)] if _OVER in lines else lines

    def test_is_over(self) -> None:
        """The cluster begins to close: `log_of_test` gets no more lines."""
        self.log.append(_OVER)

    def _log_line(self, level: str, text: str) -> None:
        self.log.append(f"{level}: {text}")

    def report_queues(self) -> None:
        """Let the event log say how many messages each session's queue has, so that an audit misses none of them."""
        for each in self.node.sessions.everything():
            self.node.env.observer.message_depth(each, each.queue.size + len(each.queue.inflight))

    # -- pending work

    def pending(self) -> Iterator[str]:
        """Yield a line for all work that is not complete; none if the node is down or paused."""
        server = self._server
        if server is None or server.gate.frozen:
            return
        node = server.node
        if node.env.store.bytes_waiting:
            yield f"node {self.number}: {node.env.store.bytes_waiting} bytes are not committed ({node.env.store.state})"
        if len(node.cleanup):
            yield f"node {self.number}: the data of {len(node.cleanup)} deleted ranges is not removed"
        yield from _connections(node)
        yield from _queues(node)
        for passage in server.gate.connections.values():
            if passage.bytes_unsent:
                yield f"{passage.client_id or NOBODY}: does not read, {passage.bytes_unsent} bytes wait"


def _connections(node: Node) -> Iterator[str]:
    for connection in node.connections.values():
        name = connection.client_id or NOBODY
        if connection.acks.waiting or connection.flow.held is not None or connection.acks.unacked:
            acks = connection.acks
            yield f"{name}: {acks.unacked} publishes without acknowledgement, {len(acks.waiting)} answers wait"
        if connection.output.out:
            yield f"{name}: its output is not flushed"


def _queues(node: Node) -> Iterator[str]:
    for session in node.sessions.in_memory():
        queue = session.queue
        if session.online and (queue.size or queue.inflight):
            yield f"{session.client_id}: {queue.size} messages wait, {len(queue.inflight)} are not acknowledged"

"""A node of a cluster under test: its port, its disk and its log stay, its server comes and goes."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from ...broker.clustering.runtime import OF_THE_MACHINE
from ...broker.connection.connection import ClientConnection
from ...broker.node import Node
from ...broker.reporting.events import Row
from ...configs import load
from ..faults.packet_drops import Drop, FaultError
from ..log_audit.history import Answer
from .idle import IdleDetector
from .in_process import InProcessServer
from .memory_disk import Disks
from .node_links import NodeLinks

LISTENER = "listener.tcp.default"
CLUSTER_LISTENER = "listener.vmq.default"
NOBODY = "a connection before CONNECT"
_THREADS = ("leveldb ", "eventlog")


class LeakError(AssertionError):
    """Something of a broker is left after its end: a task, a thread, a connection or a listener."""


class NodeHandle:
    """One node. Its methods that change something are the cluster's; this is what a test looks at.

    `number` counts from 0. `host` and `port` are those of the TCP listener and stay the same over restarts: the port is
    reserved, by a bound socket that never listens, for as long as the handle is open. `sink` takes the rows of its log,
    `answered` hears of each SUBACK that leaves, `kept` of each CONNACK of a session that outlives its connection.
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
        answered: Callable[[Answer], None],
        kept: Callable[[Answer], None],
        node_links: NodeLinks | None = None,
    ) -> None:
        self.number = number
        self.name = conf["nodename"]
        self.host = "127.0.0.1"
        self.directory = directory
        self.disks = disks
        self.drops: list[Drop] = []
        self.log: deque[str] = deque(maxlen=1000)
        """Its last log lines, as `level: text`."""
        self._seed = f"{seed} {self.name}"
        self._activity = activity
        self._sink = sink
        self._answered = answered
        self._kept = kept
        self._node_links = node_links
        self._server: InProcessServer | None = None
        self._changing = asyncio.Lock()
        """Held while the node starts or ends: what is asked meanwhile comes after it."""
        self._threads: list[threading.Thread] = []
        self._reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind((self.host, 0))
        self.port: int = self._reserved.getsockname()[1]
        self._conf = {**conf, LISTENER: f"{self.host}:{self.port}", "platform_data_dir": str(directory)}
        if node_links is not None:
            self._conf[CLUSTER_LISTENER] = node_links.address(number)

    @property
    def url(self) -> str:
        """As mqtt://HOST:PORT."""
        return f"mqtt://{self.host}:{self.port}"

    @property
    def up(self) -> bool:
        """Whether it runs; a paused node does."""
        return self._server is not None

    @property
    def paused(self) -> bool:
        """Whether it stands still."""
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
        """How much of the cluster it sees: "whole", "majority" (somebody is missing) or "minority" (no lease).

        Raises `FaultError` if the node is down.
        """
        return self.node.policy.view_state.value

    def ports(self) -> dict[str, int]:
        """Listener -> port, of all MQTT listeners that run."""
        return {row.key: row.port for row in self.server.listeners.show()}

    # -- life; called by the cluster

    async def start(self) -> None:
        """Start a server on the disk that there is. Raises what `Server.start` raises, and `ConfigError`."""
        async with self._changing:
            await self._start()

    async def _start(self) -> None:
        if self._server is not None:
            raise FaultError(f"node {self.number} is up")
        settings = load(None, {}, self._conf)
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
        )
        server.gate.suback_left = lambda client: self._answered((server.node.env.events.hlc, self.name, client))
        server.gate.connack_left = partial(self._welcomed, server)
        before = set(threading.enumerate())
        await server.start()
        fresh = set(threading.enumerate()) - before
        self._threads = [thread for thread in fresh if thread.name.startswith(_THREADS)]
        self._server = server

    def _welcomed(self, server: InProcessServer, connection: ClientConnection) -> None:
        if connection.session is not None and connection.session.durable and connection.session.expiry_s:
            self._kept((server.node.env.events.hlc, self.name, connection.client_id))

    async def stop(self) -> None:
        """Stop in order: everything is written, clients are told. Raises `LeakError` if something is left."""
        async with self._changing:
            await self._stop()

    async def end(self, leaks: list[str]) -> None:
        """Stop if it runs, also if it is just about to; give the port back. Adds to `leaks` what is left behind."""
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
        await self._check(server)

    async def kill(self) -> None:
        """As kill -9. What was committed is on the disk, the rest is gone."""
        async with self._changing:
            server, self._server = self.server, None
            self._awake()
            server.node.env.event("fault.kill", nodes=[self.name])
            await server.kill()
            await self._check(server)

    def pause(self) -> None:
        """As SIGSTOP: connections stay open, nothing is read, written or timed."""
        if self.paused:
            raise FaultError(f"node {self.number} is paused")
        self.server.node.env.event("fault.pause", nodes=[self.name])
        self.server.gate.freeze()
        if self._node_links is not None:
            self._node_links.network_faults.paused[self.number] = None

    def resume(self) -> None:
        """As SIGCONT: what came meanwhile is taken up, then deadlines that have passed."""
        if not self.paused:
            raise FaultError(f"node {self.number} is not paused")
        self._awake()
        self.server.gate.thaw()
        self.server.node.env.event("fault.end", nodes=[self.name], detail="pause")

    def _awake(self) -> None:
        if self._node_links is not None:
            self._node_links.network_faults.paused.pop(self.number, None)

    def release(self) -> None:
        """Give the port back."""
        self._reserved.close()

    async def _check(self, server: InProcessServer) -> None:
        await asyncio.sleep(0)
        left = server.left_behind()
        left += [f"thread {thread.name}" for thread in self._threads if thread.is_alive()]
        if left:
            raise LeakError(f"node {self.number} left behind: {', '.join(left)}")

    def _log_line(self, level: str, text: str) -> None:
        self.log.append(f"{level}: {text}")

    def queued(self) -> dict[str, int]:
        """How many messages the queue of each session has, those in flight included."""
        found: dict[str, int] = {}
        for each in self.node.sessions:
            found[each.client_id] = found.get(each.client_id, 0) + each.queue.size + len(each.queue.inflight)
        return found

    # -- rest

    def pending(self) -> Iterator[str]:
        """Everything that waits for something, in words; a node that is down or paused waits for nothing."""
        server = self._server
        if server is None or server.gate.frozen:
            return
        node = server.node
        if node.env.store.bytes_waiting:
            yield f"node {self.number}: {node.env.store.bytes_waiting} bytes to be committed ({node.env.store.state})"
        if len(node.cleanup):
            yield f"node {self.number}: {len(node.cleanup)} deleted ranges"
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
            yield f"{name}: output that is not flushed"


def _queues(node: Node) -> Iterator[str]:
    for session in node.sessions:
        queue = session.queue
        if session.online and (queue.size or queue.inflight):
            yield f"{session.client_id}: {queue.size} messages wait, {len(queue.inflight)} are not acknowledged"

"""A cluster inside the process of a test: real brokers on free ports of 127.0.0.1, faults by name, and an audit.

async with Cluster(3, pace=10) as c:
    reader = await c.client("reader", node=1, clean_start=False)
    await reader.subscribe("t/#", qos=1)
    await c.partition({0}, {1, 2})
    await c.sees(0, "minority")
    await c.heal()
    await c.whole()
    assert c.audit().verdict == "valid"
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypedDict

from ...broker.reporting.events import Row
from ..client import Client
from ..faults.network_faults import NetworkFaults, sides_of
from ..faults.packet_drops import Direction, Drop, FaultError, Then
from ..log_audit.audit import Audit, audit
from ..log_audit.history import Answer
from ..log_audit.log_files import write_log
from .convergence import can_serve, complete, diverged, in_progress, join, serves
from .directories import Engine, temporary_directory
from .idle import IdleDetector
from .memory_disk import Disks
from .node_handle import NOBODY, LeakError, NodeHandle
from .node_links import Links, NodeLinks
from .time_scale import check_pace

MAX_NODES = 7
ROWS_KEPT = 1_000_000
"""Rows of the event log kept in memory; beyond that the oldest go, and an audit says `unknown`."""
IDLE_TURNS = 5
"""Turns of the loop without anything going on after which a cluster is at rest: what a client in this loop has just
been sent, it has read two turns later."""
SETTLE_S = 10.0
SERVE_S = 20.0
"""How long a state of the cluster is waited for, in seconds."""

Sees = Literal["whole", "majority", "minority"]
Conf = Mapping[str, str | int | bool]

_DEFAULTS = {"allow_anonymous": "on", "systree_enabled": "off"}
_OURS = {"eventlog.level": "off"}
"""The log is kept in memory, whatever the configuration says."""


class ClusterOptions(TypedDict, total=False):
    """The keyword arguments of `RunningCluster` besides `nodes` and `conf`, which describes them."""

    engine: Engine
    links: Links
    seed: int | None
    directory: Path | str | None
    pace: float


def text(value: str | int | bool) -> str:
    """A value as vernemq.conf has it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


class NotSettled(TimeoutError):
    """The cluster did not come to rest in time; `pending` says what waits."""

    def __init__(self, timeout: float, pending: list[str]) -> None:
        waits = "; ".join(pending) or "there is no end of traffic"
        super().__init__(f"not settled within {timeout:g} s: {waits}")
        self.pending = pending


class RunningCluster:
    """`nodes` brokers in the running loop, joined to a cluster; an asynchronous context manager.

    `conf` has keys of vernemq.conf; anonymous clients are allowed and `$SYS` is off unless it says otherwise. `engine`:
    `memory` is a disk in memory that outlives a kill, `leveldb` is the real one. `links` is how nodes talk to each
    other. `seed` drives every random choice of the brokers; None takes a new one. `directory` keeps the nodes' data
    directories; None makes one and removes it at the end. `pace` divides the times of the cluster (lease 1.7 s,
    detection 2 s, election 0.5 to 0.8 s at pace 1).
    """

    def __init__(
        self,
        nodes: int = 1,
        conf: Conf | None = None,
        engine: Engine = "memory",
        links: Links = "memory",
        seed: int | None = None,
        directory: Path | str | None = None,
        pace: float = 1.0,
    ) -> None:
        if not 1 <= nodes <= MAX_NODES:
            raise ValueError(f"nodes = {nodes}: a cluster under test has 1 to {MAX_NODES}")
        if engine not in ("memory", "leveldb"):
            raise ValueError(f"engine = {engine!r}: 'memory' or 'leveldb'")
        if links not in ("memory", "grpc"):
            raise ValueError(f"links = {links!r}: 'memory' or 'grpc'")
        check_pace(pace)
        self.nodes: list[NodeHandle] = []
        self.seed = seed if seed is not None else int.from_bytes(os.urandom(4), "big")
        self.engine = engine
        self.links: Links = links
        self.pace = pace
        self.faults: list[str] = []
        """What was done to it, in order, in words."""
        self._count = nodes
        self._conf = {**_DEFAULTS, **{key: text(value) for key, value in (conf or {}).items()}, **_OURS}
        self._directory = Path(directory) if directory is not None else None
        self._temporary: Path | None = None
        self._rows: deque[Row] = deque(maxlen=ROWS_KEPT)
        self._answers: deque[Answer] = deque(maxlen=ROWS_KEPT)
        self._kept: deque[Answer] = deque(maxlen=ROWS_KEPT)
        self._clients: list[Client] = []
        self._activity: IdleDetector
        self._node_links: NodeLinks | None = None

    # -- life

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Start all nodes, and join them to a cluster. Raises what a node's start raises; then nothing is left.

        Once: again is a RuntimeError.
        """
        if self.nodes:
            raise RuntimeError("this cluster was opened before: it is used as it is, or another one is made")
        self._activity = IdleDetector()
        if self._directory is None:
            self._temporary = temporary_directory(self.engine)
        folder = self._directory or self._temporary
        assert folder is not None
        names = [f"node{number}@127.0.0.1" for number in range(self._count)]
        try:
            if self._count > 1:
                self._node_links = NodeLinks(self.links, names, self.pace)
            for number, name in enumerate(names):
                handle = self._handle(number, name, folder / f"node{number}")
                self.nodes.append(handle)
                await handle.start()
            if self._node_links is not None:
                await join(self.nodes, self._node_links.address(0))
                await self.whole()
        except BaseException:
            await self.close()
            raise

    def _handle(self, number: int, name: str, place: Path) -> NodeHandle:
        conf = {"nodename": name, **self._conf}
        disks: Disks | None = {} if self.engine == "memory" else None
        told = (self._row, self._answers.append, self._kept.append)
        return NodeHandle(number, conf, place, disks, self.seed, self._activity, *told, self._node_links)

    def _row(self, row: Row) -> None:
        """Take a row of a node's log. What happens anywhere after it is stamped later: one loop knows the order."""
        self._rows.append(row)
        for handle in self.nodes:
            if handle.up and handle.name != row["node"]:
                handle.node.env.events.observe(row["hlc"])

    async def close(self) -> None:
        """Close the clients, stop the nodes that run, remove what was temporary. Raises `LeakError`."""
        leaks: list[str] = []
        for client in self._clients:
            client.abort()
        async with contextlib.AsyncExitStack() as ending:  # all of it, whatever fails or is cancelled on the way
            if self._temporary is not None:
                ending.callback(shutil.rmtree, self._temporary, ignore_errors=True)
            if self._node_links is not None:
                ending.callback(self._node_links.release)
            for handle in reversed(self.nodes):
                ending.push_async_callback(handle.end, leaks)
        if leaks:
            raise LeakError("; ".join(leaks))

    # -- looking

    def __getitem__(self, number: int) -> NodeHandle:
        return self.node(number)

    def __len__(self) -> int:
        return len(self.nodes)

    def node(self, number: int = 0) -> NodeHandle:
        """A node by its number, from 0. Raises `FaultError` if there is none of that number."""
        if not 0 <= number < len(self.nodes):
            raise FaultError(f"there is no node {number}: this cluster has nodes 0 to {len(self.nodes) - 1}")
        return self.nodes[number]

    @property
    def rows(self) -> list[Row]:
        """The event log so far, all nodes, as `analytics/schema.py` defines it, at level `message`.

        A copy, made in one step: the report of a failed test is written while its brokers go on in another thread.
        """
        return list(self._rows)

    def audit(self) -> Audit:
        """Judge the event log so far: what was lost, duplicated, reordered, forgotten."""
        queues = {each.name: each.queued() for each in self.nodes if each.up and not each.paused}
        return audit(self.rows, answers=list(self._answers), kept=list(self._kept), queues=queues)

    def write_log(self, directory: Path) -> Path:
        """Write the event log as JSON lines in the layout that `strogoff analytics` reads; gives the directory back."""
        return write_log(self.rows, directory)

    async def settled(self, timeout: float = SETTLE_S, clients: Iterable[str] | None = None) -> None:
        """Wait until nothing is on its way: all is committed and acknowledged, queues of connected clients are empty.

        With `clients` only what concerns these client ids counts, and what concerns none. Raises `NotSettled` after
        `timeout` seconds. A node that is paused or down is not waited for.
        """
        wanted = None if clients is None else set(clients)
        idle_turns, seen = 0, -1
        try:
            async with asyncio.timeout(timeout):
                while idle_turns < IDLE_TURNS:
                    if self._pending(wanted):
                        idle_turns = 0
                        await self._activity.wait_for_activity()
                        continue
                    if seen != self._activity.count:
                        idle_turns, seen = 0, self._activity.count
                    else:
                        idle_turns += 1
                    await asyncio.sleep(0)
                    if idle_turns == IDLE_TURNS and any(diverged(self.nodes)):
                        idle_turns = 0
                        await self._activity.wait_for_activity()
        except TimeoutError:
            raise NotSettled(timeout, [*self._pending(wanted), *diverged(self.nodes)]) from None

    def _pending(self, wanted: set[str] | None) -> list[str]:
        found = [line for handle in self.nodes for line in handle.pending()]
        if self._node_links is not None:
            found += in_progress(self.nodes, self._node_links.network_faults)
        if wanted is None:
            return found
        ours = ("node ", *(f"{name}: " for name in (NOBODY, *wanted)))
        return [line for line in found if line.startswith(ours)]

    async def sees(self, nodes: int | Iterable[int], state: Sees, timeout: float = SERVE_S) -> None:
        """Wait until these nodes see that much of the cluster (`NodeHandle.sees`). Raises TimeoutError that says more.

        A node that is down or stands still is an error: `FaultError`.
        """
        handles = [self.node(nodes)] if isinstance(nodes, int) else [self.node(number) for number in nodes]
        for handle in handles:
            if not handle.up or handle.paused:
                raise FaultError(f"node {handle.number} is {'paused' if handle.up else 'down'}: it sees nothing")
        await self._until(lambda: all(each.sees == state for each in handles), timeout, f"{nodes} to see {state}")

    async def whole(self, timeout: float = SERVE_S) -> None:
        """Wait until all nodes serve, each sees the whole cluster, and all those vote that should.

        Raises TimeoutError that says more, and `FaultError` for a node that is down or stands still.
        """
        for handle in self.nodes:
            if not handle.up or handle.paused:
                raise FaultError(
                    f"node {handle.number} is {'paused' if handle.up else 'down'}: the cluster cannot be whole"
                )
        await self._until(lambda: all(map(complete, self.nodes)), timeout, "the cluster to be whole")

    async def _until(self, true: Callable[[], bool], timeout: float, what: str) -> None:
        try:
            await self._activity.until(true, timeout)
        except TimeoutError:
            now = ", ".join(f"node {each.number} {each.sees if each.up else 'down'}" for each in self.nodes)
            raise TimeoutError(f"waited {timeout:g} s for {what}; now: {now}") from None

    # -- clients

    async def client(self, name: str, node: int = 0, **options: Any) -> Client:
        """A connected client; `options` are those of `Client`. It is closed with the cluster."""
        client = Client(name, **options)
        client.address_of = lambda number: (self.node(number).host, self.node(number).port)
        client.on_data = self._activity.record
        self._clients.append(client)
        await client.connect(node=node)
        return client

    # -- faults

    async def kill(self, node: int) -> None:
        """As kill -9: nothing is flushed, nobody is told. With both engines what was committed survives."""
        handle = self.node(node)
        self._note("kill", handle)
        await handle.kill()

    async def stop(self, node: int) -> None:
        """Stop in order, as SIGTERM does."""
        handle = self.node(node)
        self._note("stop", handle)
        await handle.stop()

    async def start(self, node: int) -> None:
        """Start a node that is down, on its disk and its ports; it serves when this returns.

        Without a majority of the nodes that vote it cannot serve: then this does not wait for it. Raises TimeoutError.
        """
        handle = self.node(node)
        self._note("start", handle)
        await handle.start()
        if self._node_links is not None and can_serve(handle, self.nodes, self._node_links.network_faults):
            await self._until(lambda: serves(handle), SERVE_S, f"node {node} to serve")

    async def restart(self, node: int) -> None:
        """Stop in order, then start."""
        await self.stop(node)
        await self.start(node)

    async def pause(self, node: int) -> None:
        """As SIGSTOP: connections stay, nothing is read, answered or timed until `resume`."""
        handle = self.node(node)
        self._note("pause", handle)
        handle.pause()

    async def resume(self, node: int) -> None:
        """As SIGCONT."""
        handle = self.node(node)
        self._note("resume", handle)
        handle.resume()

    def drop(
        self,
        packet: str,
        node: int = 0,
        nth: int = 1,
        direction: Direction = "out",
        client: str | None = None,
        then: Then = "go on",
    ) -> Drop:
        """Swallow the `nth` packet of a kind from now on: `drop("PUBACK", nth=3, direction="out", then="cut")`.

        `direction` is `out` (broker to client) or `in`; `client` counts only those of one client id; `then = "cut"`
        resets the connection too, as a cable that breaks under the packet. `await drop.happened()` waits for it.
        """
        fault = Drop(packet, nth, direction, client, then)
        handle = self.node(node)
        handle.drops.append(fault)
        self.faults.append(f"node {node}: {fault}")
        if handle.up:
            handle.node.env.event("fault.loss", nodes=[handle.name], detail=str(fault))
        return fault

    async def partition(self, *sides: Iterable[int]) -> None:
        """Cut the links between groups of nodes, as in `partition({0}, {1, 2})`; a node in no group is alone.

        Links within a group stay as they are.
        """
        network_faults = self._network_faults("partition")
        groups = sides_of([[self.node(number).number for number in side] for side in sides], len(self.nodes))
        self.faults.append(f"partition {' | '.join(' '.join(map(str, group)) for group in groups)}")
        for one, other in network_faults.partition(groups):
            self._tell("fault.pair_cut", one, other)

    async def one_way(self, source: int, target: int) -> None:
        """`target` hears nothing of `source` any more; the other way works."""
        network_faults = self._network_faults("one_way")
        if self.node(source) is self.node(target):
            raise FaultError(f"one_way({source}, {target}): two nodes are needed")
        self.faults.append(f"one way: node {target} does not hear node {source}")
        self._tell("fault.one_way_cut", source, target)
        network_faults.cut(source, target)

    async def heal(self) -> None:
        """Mend all links; `whole` waits until the cluster has noticed."""
        network_faults = self._network_faults("heal")
        self.faults.append("heal")
        for source, target in sorted({(min(way), max(way)) for way in network_faults.heal()}):
            self._tell("fault.end", source, target, detail="cut")

    def _network_faults(self, what: str) -> NetworkFaults:
        if self._node_links is None:
            raise FaultError(f"{what} needs links between nodes, and this cluster has one node")
        return self._node_links.network_faults

    def _tell(self, kind: str, *nodes: int, **more: str) -> None:
        """An event of a fault, in the log of the first of these nodes that runs."""
        running = [self.nodes[number] for number in nodes if self.nodes[number].up]
        for handle in running[:1]:
            handle.node.env.event(kind, nodes=[self.nodes[number].name for number in nodes], **more)

    def _note(self, what: str, handle: NodeHandle) -> None:
        self.faults.append(f"{what} node {handle.number}")

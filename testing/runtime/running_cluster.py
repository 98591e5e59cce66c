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
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Never, Self, TypedDict, get_args

from ...broker.reporting.events import Row
from ...cluster.identity import slot_of
from ..chosen_keys import OF_CLUSTER, OF_NODES, Conf, check_keys, text
from ..client import Client
from ..faults.network_faults import NetworkFaults, sides_of
from ..faults.packet_drops import Direction, Drop, FaultError, Then
from ..hidden_frames import of_documented_errors
from ..log_audit.audit import Audit, audit
from ..log_audit.log_files import write_log
from .convergence import can_serve, complete, copied, diverged, in_progress, join, member_of, serves
from .directories import Engine, temporary_directory
from .idle import IdleDetector
from .loop_thread import asyncio_loop
from .memory_disk import Disks
from .node_handle import LISTENER, NOBODY, LeakError, NodeHandle
from .node_links import Links, NodeLinks
from .time_scale import check_pace

__tracebackhide__ = of_documented_errors

MAX_NODES = 7
ROWS_KEPT = 1_000_000
"""The number of event log rows kept in memory. If there are more, the oldest are dropped, and an audit is `unknown`."""
IDLE_TURNS = 5
"""After this number of turns of the loop without activity a cluster is at rest. A client in the same loop reads sent
data within two turns."""
SETTLE_S = 10.0
SERVE_S = 20.0
"""Seconds to wait for a state of the cluster, unless the test gives another timeout."""
OPEN_S = 60.0
"""Seconds that a new cluster has to be whole: seven nodes may take 15 s on a busy machine."""

MAX_ADVANCE_S = 10 * 366 * 86_400
"""The longest time that one call of `advance` lets pass, in seconds."""

Sees = Literal["whole", "majority", "minority"]

_DEFAULTS = {
    "allow_anonymous": "on",
    "systree_enabled": "off",
    "vmq_acl.acl_file": str(files("strogoff.configs") / "vmq.acl"),
}
"""Each client has each permission. The defaults of both files of permissions are below the directory of the tests."""
_OURS = {"eventlog.level": "off"}
"""The event log is kept in memory and not in files."""


class ClusterOptions(TypedDict, total=False):
    """The keyword arguments of `RunningCluster` besides `nodes` and `conf`, which describes them."""

    engine: Engine
    links: Links
    seed: int | None
    directory: Path | str | None
    pace: float


class NotSettled(TimeoutError):
    """The cluster did not come to rest in time; `pending` has a line for each incomplete operation."""

    def __init__(self, timeout: float, pending: list[str]) -> None:
        waits = "; ".join(pending) or "the traffic does not end"
        super().__init__(f"not settled within {timeout:g} s: {waits}")
        self.pending = pending


OPEN: dict[RunningCluster, asyncio.AbstractEventLoop] = {}
"""The clusters that are open, and their loops."""


def check_closed(ours: Iterable[RunningCluster] = ()) -> None:
    """Raises `LeakError` if one of these clusters is open, or any cluster whose loop has ended: nobody can close that.

    Forgets them, and releases what needs no loop.
    """
    __tracebackhide__ = True
    mine = set(ours)
    left = [cluster for cluster, loop in list(OPEN.items()) if cluster in mine or loop.is_closed()]
    for cluster in left:
        cluster.give_up()
    if left:
        sizes = ", ".join(f"{len(cluster)} node{'s' if len(cluster) > 1 else ''}" for cluster in left)
        raise LeakError(f"a cluster was left open ({sizes}): use `async with`, or call `close`")


class RunningCluster:
    """`nodes` brokers in the running loop, joined to a cluster; an asynchronous context manager.

    `conf` has keys of vernemq.conf; by default anonymous clients are allowed, each client may publish and subscribe
    everything, passwords are in `vmq.passwd` of a node's directory, and `$SYS` is off. `engine`: `memory` is a disk in
    memory that outlives a kill, `leveldb` is the real one. `links`: the transport between nodes, `memory` or `grpc`.
    `seed` determines every random choice of the brokers; None takes a new one. `directory` has the nodes' data
    directories, with `memory` only their small files; None makes one and removes it at the end. `pace` divides the
    times of the cluster (lease 1.7 s, detection 2 s, election 0.5 to 0.8 s at pace 1). Raises ValueError for an
    impossible argument. In another loop than that of `open` all coroutines raise RuntimeError.
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
        check_keys(conf or {}, OF_NODES if nodes == 1 else OF_CLUSTER)
        self.nodes: list[NodeHandle] = []
        self.seed = seed if seed is not None else int.from_bytes(os.urandom(4), "big")
        self.engine = engine
        self.links: Links = links
        self.pace = pace
        self._faults: list[str | tuple[int, Drop]] = []
        """Faults so far: their text, or the number of the node and what it drops."""
        self.started = False
        """Whether all nodes have started, and the cluster was whole."""
        self._count = nodes
        self._conf = {**_DEFAULTS, **{key: text(value) for key, value in (conf or {}).items()}, **_OURS}
        self._directory = Path(directory) if directory is not None else None
        self._temporary: Path | None = None
        self._rows: deque[Row] = deque(maxlen=ROWS_KEPT)
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

    def __enter__(self) -> Never:
        raise TypeError("this cluster runs in the loop of the test: use `async with`, or `with Cluster.sync()`")

    def __exit__(self, *raised: object) -> None:
        """Never called. Without it `with` would complain about this method, and not call `__enter__`."""

    async def open(self) -> None:
        """Start all nodes, join them to a cluster, and wait until it is whole.

        Raises the errors of a node's start, after a cleanup, and RuntimeError if the cluster was opened before, or if
        asyncio does not run.
        """
        if self.nodes:
            raise RuntimeError("this cluster was opened before: use it as it is, or make another one")
        loop = asyncio_loop()
        self._activity = IdleDetector()
        if self._directory is None:
            self._temporary = temporary_directory(self.engine)
        folder = self._directory or self._temporary
        assert folder is not None
        names = [f"node{number}@127.0.0.1" for number in range(self._count)]
        OPEN[self] = loop
        try:
            if self._count > 1:
                self._node_links = NodeLinks(self.links, names, self.pace)
            for number, name in enumerate(names):
                handle = self._handle(number, name, folder / f"node{number}")
                self.nodes.append(handle)
                await handle.start()
            if self._node_links is not None:
                await join(self.nodes, self._node_links.address(0))
                await self.whole(OPEN_S)
        except BaseException:
            await self.close()
            raise
        self.started = True

    def _handle(self, number: int, name: str, place: Path) -> NodeHandle:
        conf = {"nodename": name, "vmq_passwd.password_file": str(place / "vmq.passwd"), **self._conf}
        disks: Disks | None = {} if self.engine == "memory" else None
        return NodeHandle(number, conf, place, disks, self.seed, self._activity, self._row, self._node_links)

    def _row(self, row: Row) -> None:
        """Add a row of a node's event log. Advance the clocks of the other nodes, so that their next rows are later."""
        self._rows.append(row)
        for handle in self.nodes:
            if handle.up and handle.name != row["node"]:
                handle.node.env.events.observe(row["hlc"])

    async def close(self) -> None:
        """Close the clients, stop the running nodes, and remove temporary data. Raises `LeakError`."""
        self._check_loop()
        OPEN.pop(self, None)
        for handle in self.nodes:
            handle.test_is_over()
        leaks: list[str] = []
        for client in self._clients:
            client.abort()
        async with contextlib.AsyncExitStack() as ending:  # does every step, even if one fails or is cancelled
            if self._temporary is not None:
                ending.callback(shutil.rmtree, self._temporary, ignore_errors=True)
            if self._node_links is not None:
                ending.callback(self._node_links.release)
            for handle in reversed(self.nodes):
                ending.push_async_callback(handle.end, leaks)
        if leaks:
            raise LeakError("; ".join(leaks))

    def _check_loop(self) -> None:
        """Raises RuntimeError in another event loop than the cluster's: there nothing that the cluster does is seen."""
        loop = OPEN.get(self)
        if loop is not None and loop is not asyncio.get_running_loop():
            raise RuntimeError(
                "this cluster belongs to another event loop: give the test the same loop_scope as the fixture, "
                "or use `Cluster.sync()`"
            )

    def give_up(self) -> None:
        """Release ports and temporary data without the loop: it has ended, or runs no more."""
        OPEN.pop(self, None)
        for handle in self.nodes:
            handle.release()
        if self._node_links is not None:
            self._node_links.release()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    # -- looking

    def __getitem__(self, number: int) -> NodeHandle:
        return self.node(number)

    def __len__(self) -> int:
        return len(self.nodes)

    def node(self, number: int = 0) -> NodeHandle:
        """Returns a node by its number, from 0. Raises `FaultError` if the cluster has no such node, or is not open."""
        if not self.nodes:
            raise FaultError("the cluster is not open: use `with` or `async with`")
        if not 0 <= number < len(self.nodes):
            raise FaultError(f"there is no node {number}: this cluster has nodes 0 to {len(self.nodes) - 1}")
        return self.nodes[number]

    @property
    def host(self) -> str:
        """The address of the first node."""
        return self.node().host

    @property
    def port(self) -> int:
        """The port of the first node's TCP listener."""
        return self.node().port

    @property
    def url(self) -> str:
        """The address of the first node, mqtt://HOST:PORT."""
        return self.node().url

    @property
    def faults(self) -> list[str]:
        """Descriptions of the faults, starts and stops so far, in order; none of those that were impossible."""
        return [each if isinstance(each, str) else f"node {each[0]}: {each[1]}" for each in self._faults]

    @property
    def rows(self) -> list[Row]:
        """The event log of all nodes so far, as `analytics/schema.py` defines it, at level `message`.

        It is a copy made in one step: pytest reads it for a failure report while the brokers run in another thread.
        """
        return list(self._rows)

    def audit(self) -> Audit:
        """Judge the event log so far: finds lost, duplicate and reordered messages, and forgotten sessions."""
        for each in self.nodes:
            if each.up and not each.paused:
                each.report_queues()
        return audit(self.rows)

    def write_log(self, directory: Path | str) -> Path:
        """Write the event log as JSON lines for `strogoff analytics`. Returns the directory; raises OSError."""
        return write_log(self.rows, directory)

    async def settled(self, timeout: float = SETTLE_S, clients: Iterable[str] | None = None) -> None:
        """Wait until the cluster is at rest.

        Then all writes are committed, all messages are acknowledged, and the queues of connected clients are empty.
        With `clients`, connections and queues of other client ids may be busy. Paused and stopped nodes are ignored.
        Raises `NotSettled` after `timeout` seconds.
        """
        self._check_loop()
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
        """Wait until these nodes see that much of the cluster (`NodeHandle.sees`).

        Raises TimeoutError after `timeout` seconds; its text has the state of each node. Raises `FaultError` if one of
        these nodes is down or paused, and ValueError for another state than those of `Sees`.
        """
        if state not in get_args(Sees):
            raise ValueError(f"state = {state!r}: {', '.join(map(repr, get_args(Sees)))}")
        handles = [self.node(nodes)] if isinstance(nodes, int) else [self.node(number) for number in nodes]
        for handle in handles:
            if not handle.up or handle.paused:
                raise FaultError(f"node {handle.number} is {'paused' if handle.up else 'down'}: it sees nothing")
        await self._until(lambda: all(each.sees == state for each in handles), timeout, f"{nodes} to see {state}")

    async def whole(self, timeout: float = SERVE_S) -> None:
        """Wait until every node serves and sees the whole cluster, the intended voters vote, and sessions are `copied`.

        Then the cluster survives the loss of a node. Raises TimeoutError after `timeout` seconds; its text has the
        state of each node. Raises `FaultError` if a node is down or paused.
        """
        for handle in self.nodes:
            if not handle.up or handle.paused:
                raise FaultError(
                    f"node {handle.number} is {'paused' if handle.up else 'down'}: the cluster cannot be whole"
                )

        def is_whole() -> bool:
            return all(map(complete, self.nodes)) and all(map(copied, self.nodes))

        await self._until(is_whole, timeout, "the cluster to be whole")

    async def copied(self, timeout: float = SERVE_S) -> None:
        """Wait until each durable session is on two nodes, or on as many as `queue_replicas` says and the cluster has.

        Before that a killed node may be the only one with a session. It also waits until empty slots have reached the
        nodes that should have them. Nodes that do not serve are ignored. Raises TimeoutError after `timeout` seconds;
        its text has the state of each node.
        """

        def all_copied() -> bool:
            serving = [handle for handle in self.nodes if serves(handle)]
            return bool(serving) and all(map(copied, serving))

        await self._until(all_copied, timeout, "copies of all slots")

    async def _until(self, true: Callable[[], bool], timeout: float, what: str) -> None:
        self._check_loop()
        try:
            await self._activity.until(true, timeout)
        except TimeoutError:
            now = ", ".join(f"node {each.number} {each.sees if each.up else 'down'}" for each in self.nodes)
            raise TimeoutError(f"waited {timeout:g} s for {what}; now: {now}") from None

    def primary(self, name: str) -> int | None:
        """Returns the number of the node that has the durable session of a client id, its primary, as the nodes that
        serve know it. It is None if the slot of the session has no primary, or no node serves."""
        for handle in self.nodes:
            member = member_of(handle)
            if member is not None and serves(handle):
                holder = member.slots.row(slot_of("", name)).primary
                return next((each.number for each in self.nodes if holder and each.name == holder.node), None)
        return None

    # -- clients

    async def client(self, name: str, node: int = 0, listener: str = LISTENER, **options: Any) -> Client:
        """Returns a client, connected to a node. `close` closes the client, too.

        `listener` is the key of its TCP or TLS listener, such as `listener.ssl.mine`. `options` are those of `Client`
        except `host` and `port`: TypeError for these.
        """
        self._check_loop()
        if wrong := sorted({"host", "port"} & set(options)):
            raise TypeError(f"client() has no {' and no '.join(wrong)}: give `node` and `listener`, or use Client(...)")
        client = Client(name, **options)
        client.address_of = lambda number: self.node(number).address(listener)
        client.on_data = self._activity.record
        self._clients.append(client)
        await client.connect(node=node)
        return client

    # -- faults

    async def kill(self, node: int) -> None:
        """End a node as kill -9 does: it flushes nothing, and its clients get a TCP reset.

        Committed data survives with both engines. Raises `FaultError` if the node is down.
        """
        handle = self.node(node)
        with self._noted("kill", handle):
            await handle.kill()

    async def stop(self, node: int) -> None:
        """Stop a node in order, as SIGTERM does. Raises `FaultError` if it is down, `LeakError`."""
        handle = self.node(node)
        with self._noted("stop", handle):
            await handle.stop()

    async def start(self, node: int) -> None:
        """Start a node that is down, with its disk and its ports, and wait until it serves.

        A node that reaches no majority of the voters cannot serve: then `start` does not wait. Raises `FaultError` if
        the node is up, and TimeoutError.
        """
        handle = self.node(node)
        with self._noted("start", handle):
            await handle.start()
        if self._node_links is not None and can_serve(handle, self.nodes, self._node_links.network_faults):
            await self._until(lambda: serves(handle), SERVE_S, f"node {node} to serve")

    async def restart(self, node: int) -> None:
        """Stop a node in order, then start it."""
        await self.stop(node)
        await self.start(node)

    async def pause(self, node: int) -> None:
        """Pause a node, as SIGSTOP does: its connections stay open, and it does nothing until `resume`.

        Raises `FaultError` if the node is down or paused.
        """
        handle = self.node(node)
        with self._noted("pause", handle):
            handle.pause()

    async def resume(self, node: int) -> None:
        """Let a paused node continue, as SIGCONT does. Raises `FaultError` if it is not paused."""
        handle = self.node(node)
        with self._noted("resume", handle):
            handle.resume()

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass at once on all nodes: sessions and messages expire, delayed wills are published.

        The nodes begin with what is due before this returns; `settled` waits for the rest. Connected clients count as
        having kept alive, and leases do not end. A node that is down or paused does what is due when it goes on. Raises
        ValueError if `seconds` is negative or more than ten years.
        """
        self._check_loop()
        if not 0 <= seconds <= MAX_ADVANCE_S:
            raise ValueError(f"seconds = {seconds!r}: between 0 and {MAX_ADVANCE_S}, which are ten years")
        self._faults.append(f"advance by {seconds:g} s")
        for handle in self.nodes:
            handle.advance(round(seconds * 1000))
        for handle in self.nodes:
            handle.do_what_is_due()

    def drop(
        self,
        packet: str,
        node: int = 0,
        nth: int = 1,
        direction: Direction = "out",
        client: str | None = None,
        then: Then = "go on",
    ) -> Drop:
        """Drop the `nth` packet of a kind from now on: `drop("PUBACK", nth=3, direction="out", then="cut")`.

        `direction` is `out` (broker to client) or `in`. With `client` only packets of this client id count. `then =
        "cut"` also resets the connection, as if the link broke with the packet in flight. `await drop.happened()` waits
        until the packet is dropped. Raises `FaultError` for impossible arguments.
        """
        fault = Drop(packet, nth, direction, client, then)
        handle = self.node(node)
        handle.drops.append(fault)
        self._faults.append((node, fault))
        if handle.up:
            handle.node.env.event("fault.loss", nodes=[handle.name], detail=str(fault))
        return fault

    async def partition(self, *sides: Iterable[int]) -> None:
        """Cut the links between groups of nodes, as in `partition({0}, {1, 2})`; a node in no group is alone.

        Links within a group do not change. Raises `FaultError` if a node is in two groups, or the cluster has one node.
        """
        network_faults = self._network_faults("partition")
        groups = sides_of([[self.node(number).number for number in side] for side in sides], len(self.nodes))
        self._faults.append(f"partition {' | '.join(' '.join(map(str, group)) for group in groups)}")
        for one, other in network_faults.partition(groups):
            self._tell("fault.pair_cut", one, other)

    async def one_way(self, source: int, target: int) -> None:
        """Cut one direction of a link: `target` receives nothing from `source`. The other direction works.

        Raises `FaultError` if both are the same node.
        """
        network_faults = self._network_faults("one_way")
        if self.node(source) is self.node(target):
            raise FaultError(f"one_way({source}, {target}): two nodes are needed")
        self._faults.append(f"one way: node {target} does not hear node {source}")
        self._tell("fault.one_way_cut", source, target)
        network_faults.cut(source, target)

    async def heal(self) -> None:
        """Restore all links; `whole` waits until the nodes have noticed."""
        network_faults = self._network_faults("heal")
        self._faults.append("heal")
        for source, target in sorted({(min(way), max(way)) for way in network_faults.heal()}):
            self._tell("fault.end", source, target, detail="cut")

    def _network_faults(self, what: str) -> NetworkFaults:
        self._check_loop()
        if self._node_links is None:
            raise FaultError(f"{what} needs links between nodes, and this cluster has one node")
        return self._node_links.network_faults

    def _tell(self, kind: str, *nodes: int, **more: str) -> None:
        """Write the event of a fault to the event log of the first running node of `nodes`."""
        running = [self.nodes[number] for number in nodes if self.nodes[number].up]
        for handle in running[:1]:
            handle.node.env.event(kind, nodes=[self.nodes[number].name for number in nodes], **more)

    @contextlib.contextmanager
    def _noted(self, what: str, handle: NodeHandle) -> Iterator[None]:
        """Note a fault before it happens; a `FaultError` takes the note back."""
        self._check_loop()
        fault = f"{what} node {handle.number}"
        self._faults.append(fault)
        try:
            yield
        except FaultError:
            del self._faults[len(self._faults) - 1 - self._faults[::-1].index(fault)]
            raise

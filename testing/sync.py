"""The cluster and its clients for tests without asyncio, and for those in another loop than the cluster's.

`SyncCluster` runs a `Cluster` in a thread of its own, `SyncClient` drives a `Client` in that thread and blocks.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from ..broker.reporting.events import Row
from ..mqtt.packets import Connack, Disconnect, SubscribeOptions
from .client import TIMEOUT_S, Client
from .client_session import Message
from .faults.packet_drops import Direction, Drop, Then
from .log_audit.audit import Audit
from .runtime.loop_thread import LoopThread
from .runtime.node_handle import NodeHandle
from .runtime.running_cluster import SERVE_S, SETTLE_S, ClusterOptions, Conf, RunningCluster, Sees

_T = TypeVar("_T")
Filters = str | SubscribeOptions | Iterable[str | SubscribeOptions]


class SyncCluster:
    """As `Cluster`, all methods blocking. A context manager; `open` and `close` for those who cannot use one."""

    def __init__(self, nodes: int = 1, conf: Conf | None = None, **options: Unpack[ClusterOptions]) -> None:
        self.cluster = RunningCluster(nodes, conf, **options)
        """The cluster itself; its methods belong to another thread."""
        self.seed = self.cluster.seed
        self._thread: LoopThread | None = None

    # -- life

    def open(self) -> None:
        """Start the thread and the nodes. Once: again is a RuntimeError."""
        if self._thread is not None:
            raise RuntimeError("the cluster is open: it is used as it is, without `with`")
        thread = LoopThread(f"strogoff cluster {self.seed}")
        try:
            thread.call(self.cluster.open())
        except BaseException:
            thread.stop()
            raise
        self._thread = thread

    def close(self) -> None:
        """Stop the nodes and the thread. Raises `LeakError`; again is no error."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            thread.call(self.cluster.close())
        finally:
            thread.stop()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def thread(self) -> LoopThread:
        """Where it runs. Raises RuntimeError when it does not."""
        if self._thread is None:
            raise RuntimeError("the cluster is not open")
        return self._thread

    # -- looking

    def __getitem__(self, number: int) -> NodeHandle:
        return self.cluster[number]

    def __len__(self) -> int:
        return len(self.cluster)

    def node(self, number: int = 0) -> NodeHandle:
        """A node by its number, from 0."""
        return self.cluster.node(number)

    @property
    def host(self) -> str:
        """Of the first node."""
        return self.cluster[0].host

    @property
    def port(self) -> int:
        """Of the first node's TCP listener."""
        return self.cluster[0].port

    @property
    def url(self) -> str:
        """Of the first node, mqtt://HOST:PORT."""
        return self.cluster[0].url

    @property
    def faults(self) -> list[str]:
        """What was done to it, in order."""
        return self.cluster.faults

    @property
    def rows(self) -> list[Row]:
        """The event log so far."""
        return self.thread.ask(lambda: self.cluster.rows) if self._thread is not None else self.cluster.rows

    def audit(self) -> Audit:
        """Judge the event log so far."""
        return self.thread.ask(self.cluster.audit) if self._thread is not None else self.cluster.audit()

    def write_log(self, directory: Path) -> Path:
        """As `Cluster.write_log`."""
        if self._thread is None:
            return self.cluster.write_log(directory)
        return self.thread.ask(lambda: self.cluster.write_log(directory))

    def settled(self, timeout: float = SETTLE_S, clients: Iterable[str] | None = None) -> None:
        """As `Cluster.settled`. What another thread's client has not yet handed to the system is not seen."""
        self.thread.call(self.cluster.settled(timeout, clients), timeout)

    def sees(self, nodes: int | Iterable[int], state: Sees, timeout: float = SERVE_S) -> None:
        """As `Cluster.sees`."""
        self.thread.call(self.cluster.sees(nodes, state, timeout), timeout)

    def whole(self, timeout: float = SERVE_S) -> None:
        """As `Cluster.whole`."""
        self.thread.call(self.cluster.whole(timeout), timeout)

    # -- clients

    def client(self, name: str, node: int = 0, **options: Any) -> SyncClient:
        """A connected client whose methods block."""
        return SyncClient(self.thread, self.thread.call(self.cluster.client(name, node, **options)))

    # -- faults

    def kill(self, node: int = 0) -> None:
        """As kill -9."""
        self.thread.call(self.cluster.kill(node))

    def stop(self, node: int = 0) -> None:
        """Stop in order."""
        self.thread.call(self.cluster.stop(node))

    def start(self, node: int = 0) -> None:
        """Start a node that is down."""
        self.thread.call(self.cluster.start(node))

    def restart(self, node: int = 0) -> None:
        """Stop in order, then start."""
        self.thread.call(self.cluster.restart(node))

    def pause(self, node: int = 0) -> None:
        """As SIGSTOP."""
        self.thread.call(self.cluster.pause(node))

    def resume(self, node: int = 0) -> None:
        """As SIGCONT."""
        self.thread.call(self.cluster.resume(node))

    def drop(
        self,
        packet: str,
        node: int = 0,
        nth: int = 1,
        direction: Direction = "out",
        client: str | None = None,
        then: Then = "go on",
    ) -> SyncDrop:
        """As `Cluster.drop`."""
        return SyncDrop(
            self.thread, self.thread.ask(lambda: self.cluster.drop(packet, node, nth, direction, client, then))
        )

    def partition(self, *sides: Iterable[int]) -> None:
        """As `Cluster.partition`."""
        self.thread.call(self.cluster.partition(*sides))

    def one_way(self, source: int, target: int) -> None:
        """As `Cluster.one_way`."""
        self.thread.call(self.cluster.one_way(source, target))

    def heal(self) -> None:
        """As `Cluster.heal`."""
        self.thread.call(self.cluster.heal())


class SyncDrop:
    """A `Drop` that can be waited for without asyncio."""

    def __init__(self, thread: LoopThread, drop: Drop) -> None:
        self._thread = thread
        self.drop = drop

    @property
    def dropped(self) -> bool:
        """Whether it has happened."""
        return self.drop.dropped

    def happened(self, timeout: float = TIMEOUT_S) -> None:
        """Wait until the packet was dropped. Raises TimeoutError."""
        self._thread.call(self.drop.happened(timeout), timeout)


class ThreadClient:
    """What both kinds of clients in another thread have in common."""

    def __init__(self, thread: LoopThread, client: Client) -> None:
        self._thread = thread
        self.client = client
        """The client itself; its methods belong to the cluster's thread."""

    @property
    def name(self) -> str:
        """The client id."""
        return self.client.name

    @property
    def connected(self) -> bool:
        """Whether a connection is there."""
        return self.client.connected

    @property
    def session_present(self) -> bool:
        """What the last CONNACK said."""
        return self.client.session_present

    @property
    def received(self) -> list[Message]:
        """Every message so far."""
        return list(self.client.received)

    def take(self) -> list[Message]:
        """All messages that have come and were not yet taken; does not wait."""
        return self._thread.ask(self.client.take)

    def ack(self, message: Message) -> None:
        """Acknowledge a message, for `auto_ack=False`."""
        self._thread.ask(lambda: self.client.ack(message))

    def abort(self) -> None:
        """Cut the connection off, without DISCONNECT."""
        self._thread.ask(self.client.abort)


class SyncClient(ThreadClient):
    """As `Client`, blocking. A context manager that disconnects at its end."""

    def _do(self, work: Coroutine[Any, Any, _T], limit_s: float = 0.0) -> _T:
        return self._thread.call(work, limit_s)

    def publish(
        self, topic: str, payload: bytes | str = b"", qos: int = 0, retain: bool = False, **options: Any
    ) -> int:
        """As `Client.publish`."""
        return self._do(self.client.publish(topic, payload, qos, retain, **options))

    def subscribe(self, filters: Filters, qos: int = 0, **options: Any) -> list[int]:
        """As `Client.subscribe`."""
        return self._do(self.client.subscribe(filters, qos, **options))

    def unsubscribe(self, filters: str | Iterable[str], timeout: float = TIMEOUT_S) -> list[int]:
        """As `Client.unsubscribe`."""
        return self._do(self.client.unsubscribe(filters, timeout))

    def message(self, timeout: float = TIMEOUT_S) -> Message:
        """As `Client.message`."""
        return self._do(self.client.message(timeout), timeout)

    def messages(self, timeout: float = TIMEOUT_S) -> Iterator[Message]:
        """Messages as they come, until none came for `timeout` seconds."""
        while True:
            try:
                yield self.message(timeout)
            except TimeoutError:
                return

    def disconnect(self, reason: int = 0) -> None:
        """As `Client.disconnect`."""
        self._do(self.client.disconnect(reason))

    def reconnect(self, node: int = 0, clean_start: bool = False) -> Connack:
        """As `Client.reconnect`."""
        return self._do(self.client.reconnect(node, clean_start))

    def closed(self, timeout: float = TIMEOUT_S) -> Disconnect | None:
        """As `Client.closed`."""
        return self._do(self.client.closed(timeout), timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.disconnect()

"""A cluster and clients with blocking methods, for tests without asyncio and tests in another loop than the cluster's.

`SyncCluster` runs a cluster in its own thread. `SyncClient` runs a `Client` in that thread, and blocks its caller.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Never, Self, TypeVar, Unpack

from ..broker.reporting.events import Row
from ..mqtt.packets import Connack, Disconnect, Packet, SubscribeOptions
from .chosen_keys import Conf
from .client import TIMEOUT_S, Client
from .client_session import Message
from .faults.packet_drops import Direction, Drop, Then
from .hidden_frames import of_documented_errors
from .log_audit.audit import Audit
from .runtime.loop_thread import LoopThread
from .runtime.node_handle import NodeHandle
from .runtime.running_cluster import OPEN_S, SERVE_S, SETTLE_S, ClusterOptions, RunningCluster, Sees

__tracebackhide__ = of_documented_errors

_T = TypeVar("_T")
Filters = str | SubscribeOptions | Iterable[str | SubscribeOptions]


class SyncCluster:
    """A cluster in its own thread. Arguments are those of `Cluster`; all methods block.

    A context manager; a caller that cannot use `with` calls `open` and `close`. Times are in seconds.
    """

    def __init__(self, nodes: int = 1, conf: Conf | None = None, **options: Unpack[ClusterOptions]) -> None:
        self.cluster = RunningCluster(nodes, conf, **options)
        """The cluster itself. Its methods may only be called in the cluster's thread."""
        self.seed = self.cluster.seed
        self.captures = 0
        """The number of `Capture`s of this cluster so far that have a name by default."""
        self._thread: LoopThread | None = None

    # -- life

    def open(self) -> None:
        """Start the thread and the nodes. Raises RuntimeError if the cluster was opened before."""
        if self._thread is not None:
            raise RuntimeError("the cluster is open already: use it without `with`")
        thread = LoopThread(f"strogoff cluster {self.seed}")
        try:
            thread.call(self.cluster.open(), OPEN_S)
        except BaseException:
            thread.stop()
            raise
        self._thread = thread

    def close(self) -> None:
        """Stop the nodes and the thread; no effect if they are stopped. Raises `LeakError`."""
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

    async def __aenter__(self) -> Never:
        raise TypeError("this cluster runs in its own thread: use `with`, or `async with Cluster()`")

    async def __aexit__(self, *raised: object) -> None:
        """Never called. Without it `async with` would complain about this method, and not call `__aenter__`."""

    @property
    def thread(self) -> LoopThread:
        """The thread in which the cluster runs. Raises RuntimeError if the cluster is not open."""
        if self._thread is None:
            raise RuntimeError("the cluster is not open: use `with`, or call `open`")
        return self._thread

    # -- looking

    def __getitem__(self, number: int) -> NodeHandle:
        return self.cluster[number]

    def __len__(self) -> int:
        return len(self.cluster)

    def node(self, number: int = 0) -> NodeHandle:
        """Returns a node by its number, from 0. Raises `FaultError` if the cluster has no such node."""
        return self.cluster.node(number)

    @property
    def host(self) -> str:
        """The address of the first node."""
        return self.cluster.host

    @property
    def port(self) -> int:
        """The port of the first node's TCP listener."""
        return self.cluster.port

    @property
    def url(self) -> str:
        """The address of the first node, mqtt://HOST:PORT."""
        return self.cluster.url

    @property
    def faults(self) -> list[str]:
        """Descriptions of the faults, starts and stops so far, in order."""
        return self.cluster.faults

    @property
    def rows(self) -> list[Row]:
        """The event log so far, of all nodes, as `Cluster.rows`."""
        return self.thread.ask(lambda: self.cluster.rows) if self._thread is not None else self.cluster.rows

    def audit(self) -> Audit:
        """Judge the event log so far: finds lost, duplicate and reordered messages, and forgotten sessions."""
        return self.thread.ask(self.cluster.audit) if self._thread is not None else self.cluster.audit()

    def write_log(self, directory: Path | str) -> Path:
        """Write the event log as JSON lines for `strogoff analytics`. Returns the directory; raises OSError."""
        if self._thread is None:
            return self.cluster.write_log(directory)
        return self.thread.ask(lambda: self.cluster.write_log(directory))

    def settled(self, timeout: float = SETTLE_S, clients: Iterable[str] | None = None) -> None:
        """Wait until the cluster is at rest, as `Cluster.settled`. Raises `NotSettled`.

        It does not wait for a message that a client in another thread has not sent yet.
        """
        self.thread.call(self.cluster.settled(timeout, clients), timeout)

    def sees(self, nodes: int | Iterable[int], state: Sees, timeout: float = SERVE_S) -> None:
        """Wait until these nodes see that much of the cluster, as `Cluster.sees`. Raises TimeoutError, `FaultError`."""
        self.thread.call(self.cluster.sees(nodes, state, timeout), timeout)

    def whole(self, timeout: float = SERVE_S) -> None:
        """Wait until every node serves and sees the whole cluster. Raises TimeoutError, `FaultError`."""
        self.thread.call(self.cluster.whole(timeout), timeout)

    def copied(self, timeout: float = SERVE_S) -> None:
        """Wait until each durable session has its copies, as `Cluster.copied`. Raises TimeoutError."""
        self.thread.call(self.cluster.copied(timeout), timeout)

    def primary(self, name: str) -> int | None:
        """Returns the number of the node that has the durable session of a client id, as `Cluster.primary`."""
        return self.thread.ask(lambda: self.cluster.primary(name))

    # -- clients

    def client(self, name: str, node: int = 0, **options: Any) -> SyncClient:
        """Returns a connected client whose methods block; `options` are those of `Cluster.client`."""
        return SyncClient(self.thread, self.thread.call(self.cluster.client(name, node, **options)))

    # -- faults

    def kill(self, node: int = 0) -> None:
        """End a node as kill -9 does: it flushes nothing, and its clients get a TCP reset."""
        self.thread.call(self.cluster.kill(node))

    def stop(self, node: int = 0) -> None:
        """Stop a node in order, as SIGTERM does."""
        self.thread.call(self.cluster.stop(node))

    def start(self, node: int = 0) -> None:
        """Start a node that is down, as `Cluster.start`. Raises TimeoutError."""
        self.thread.call(self.cluster.start(node))

    def restart(self, node: int = 0) -> None:
        """Stop a node in order, then start it."""
        self.thread.call(self.cluster.restart(node))

    def pause(self, node: int = 0) -> None:
        """Pause a node, as SIGSTOP does: its connections stay open, and it does nothing."""
        self.thread.call(self.cluster.pause(node))

    def resume(self, node: int = 0) -> None:
        """Let a paused node continue, as SIGCONT does."""
        self.thread.call(self.cluster.resume(node))

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass at once on all nodes, as `Cluster.advance`: what is due meanwhile happens now."""
        self.thread.call(self.cluster.advance(seconds))

    def drop(
        self,
        packet: str,
        node: int = 0,
        nth: int = 1,
        direction: Direction = "out",
        client: str | None = None,
        then: Then = "go on",
    ) -> SyncDrop:
        """Drop the `nth` packet of a kind from now on. The arguments are those of `Cluster.drop`."""
        return SyncDrop(
            self.thread, self.thread.ask(lambda: self.cluster.drop(packet, node, nth, direction, client, then))
        )

    def partition(self, *sides: Iterable[int]) -> None:
        """Cut the links between groups of nodes; a node in no group is alone."""
        self.thread.call(self.cluster.partition(*sides))

    def one_way(self, source: int, target: int) -> None:
        """Cut one direction of a link: `target` receives nothing from `source`."""
        self.thread.call(self.cluster.one_way(source, target))

    def heal(self) -> None:
        """Restore all links; `whole` waits until the nodes have noticed."""
        self.thread.call(self.cluster.heal())


class SyncDrop:
    """A `Drop` with a blocking wait."""

    def __init__(self, thread: LoopThread, drop: Drop) -> None:
        self._thread = thread
        self.drop = drop

    @property
    def dropped(self) -> bool:
        """Whether the broker's side has dropped the packet."""
        return self.drop.dropped

    def happened(self, timeout: float = TIMEOUT_S) -> None:
        """Wait until the packet is dropped. Raises TimeoutError."""
        self._thread.call(self.drop.happened(timeout), timeout)


class ThreadClient:
    """A `Client` that runs in the cluster's thread: the base of `SyncClient` and `BridgedClient`."""

    def __init__(self, thread: LoopThread, client: Client) -> None:
        self._thread = thread
        self.client = client
        """The client itself. Its methods may only be called in the cluster's thread."""

    @property
    def name(self) -> str:
        """The client id."""
        return self.client.name

    @property
    def connected(self) -> bool:
        """Whether the broker has accepted the connection, and the connection has not ended."""
        return self.client.connected

    @property
    def session_present(self) -> bool:
        """Whether the last CONNACK said that the broker has resumed a session."""
        return self.client.session_present

    @property
    def received(self) -> list[Message]:
        """Every message so far, in order; a copy."""
        return list(self.client.received)

    def take(self) -> list[Message]:
        """Returns all messages that have arrived and were not taken yet; does not wait."""
        return self._thread.ask(self.client.take)

    def ack(self, message: Message) -> None:
        """Send PUBACK or PUBREC for a message, with `auto_ack=False`; no effect for QoS 0."""
        self._thread.ask(lambda: self.client.ack(message))

    def send(self, packet: Packet | bytes) -> None:
        """Send a packet of `strogoff.mqtt.packets`, or raw bytes. Raises `MqttClosed` if it is not connected."""
        self._thread.ask(lambda: self.client.send(packet))

    def abort(self) -> None:
        """Close the connection without DISCONNECT: the broker publishes the will."""
        self._thread.ask(self.client.abort)


class SyncClient(ThreadClient):
    """Runs a `Client` in the cluster's thread; its methods block. A context manager that disconnects at its end."""

    def _do(self, work: Coroutine[Any, Any, _T], limit_s: float = TIMEOUT_S) -> _T:
        return self._thread.call(work, limit_s)

    def publish(
        self,
        topic: str,
        payload: bytes | str = b"",
        qos: int = 0,
        retain: bool = False,
        timeout: float = TIMEOUT_S,
        **properties: Any,
    ) -> int:
        """Publish and wait for the acknowledgement. Arguments, result and errors are those of `Client.publish`."""
        return self._do(self.client.publish(topic, payload, qos, retain, timeout, **properties), timeout)

    def subscribe(self, filters: Filters, qos: int = 0, timeout: float = TIMEOUT_S, **properties: Any) -> list[int]:
        """Subscribe and wait for SUBACK. Arguments, result and errors are those of `Client.subscribe`."""
        return self._do(self.client.subscribe(filters, qos, timeout, **properties), timeout)

    def unsubscribe(self, filters: str | Iterable[str], timeout: float = TIMEOUT_S) -> list[int]:
        """Unsubscribe and wait for UNSUBACK. Result and errors are those of `Client.unsubscribe`."""
        return self._do(self.client.unsubscribe(filters, timeout), timeout)

    def message(self, timeout: float = TIMEOUT_S) -> Message:
        """Wait for the next message that was not taken yet. Raises `ConnectionLost` or TimeoutError."""
        return self._do(self.client.message(timeout), timeout)

    def messages(self, timeout: float = TIMEOUT_S) -> Iterator[Message]:
        """Yield messages as they arrive; end when none arrives for `timeout` seconds."""
        while True:
            try:
                yield self.message(timeout)
            except TimeoutError:
                return

    def disconnect(self, reason: int = 0, properties: dict[str, Any] | None = None) -> None:
        """Send DISCONNECT and wait for the end of the connection."""
        self._do(self.client.disconnect(reason, properties))

    def reconnect(self, node: int = 0, clean_start: bool = False, timeout: float = TIMEOUT_S) -> Connack:
        """Connect again, by default to the same session. Result and errors are those of `Client.connect`."""
        return self._do(self.client.reconnect(node, clean_start, timeout), timeout)

    def closed(self, timeout: float = TIMEOUT_S) -> Disconnect | None:
        """Wait until the connection has ended. Returns the broker's DISCONNECT or None; raises TimeoutError."""
        return self._do(self.client.closed(timeout), timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.disconnect()

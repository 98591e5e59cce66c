"""Records all published messages, for tests that look at them afterwards. A replacement for pytest-mqtt's `capmqtt`."""

from __future__ import annotations

import time
from typing import Any

from .client import TIMEOUT_S
from .client_session import Message
from .hidden_frames import of_documented_errors
from .sync import SyncClient, SyncCluster

__tracebackhide__ = of_documented_errors


class Capture:
    """A client that has subscribed to everything. `messages` waits until all published messages have arrived.

    `name` is its client id. By default the first capture of a cluster is `mqtt-capture`, the second `mqtt-capture-2`.

    Its session is durable: if the broker was killed or stopped and has started again, each method connects again first.
    Messages of QoS 0 from the time between are lost, as for every subscriber.

    `messages` cannot wait for a message that a client in another thread has not sent yet. With paho, call
    `wait_for_publish` first, or call `wait` here.
    """

    def __init__(self, cluster: SyncCluster, filter: str = "#", name: str | None = None) -> None:
        self._cluster = cluster
        if name is None:
            cluster.captures += 1
            name = "mqtt-capture" if cluster.captures == 1 else f"mqtt-capture-{cluster.captures}"
        self._filter = filter
        self._client: SyncClient = cluster.client(name, clean_start=False)
        self._begin = 0
        self._client.subscribe(filter, qos=2)

    def _reconnect(self) -> None:
        """Connect again if the connection has ended and a node runs."""
        running = [node.number for node in self._cluster.cluster.nodes if node.up and not node.paused]
        if self._client.connected or not running:
            return
        if not self._client.reconnect(running[0]).session_present:
            self._client.subscribe(self._filter, qos=2)

    def _settle(self) -> None:
        """Wait until all published messages have arrived."""
        self._reconnect()
        self._cluster.settled(clients=[self._client.name])

    @property
    def messages(self) -> list[Message]:
        """All messages since the last `clear`, or since the beginning."""
        self._settle()
        return self._client.received[self._begin :]

    @property
    def records(self) -> list[tuple[str, bytes]]:
        """`messages` as pairs of topic and payload."""
        return [(message.topic, message.payload) for message in self.messages]

    def wait(self, count: int = 1, timeout: float = TIMEOUT_S) -> list[Message]:
        """Wait until at least `count` messages have arrived, and return all of them.

        Raises TimeoutError after `timeout` seconds; its text says how many have arrived. Raises `ConnectionLost` if no
        node runs.
        """
        self._reconnect()
        deadline = time.monotonic() + timeout
        self._client.take()
        while len(self._client.received) - self._begin < count:
            try:
                self._client.message(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                have = len(self._client.received) - self._begin
                raise TimeoutError(f"{have} of {count} messages within {timeout:g} s") from None
        return self._client.received[self._begin :]

    def clear(self) -> None:
        """Wait until all published messages have arrived, and forget them."""
        self._settle()
        self._begin = len(self._client.received)

    def publish(self, topic: str, payload: bytes | str = b"", qos: int = 0, retain: bool = False, **more: Any) -> int:
        """Publish with the client that records. Result and errors are those of `Client.publish`."""
        self._reconnect()
        return self._client.publish(topic, payload, qos, retain, **more)

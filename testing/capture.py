"""Records all that is published, for tests that ask afterwards. A drop-in for pytest-mqtt's `capmqtt`."""

from __future__ import annotations

import time
from typing import Any

from .client import TIMEOUT_S
from .client_session import Message
from .sync import SyncClient, SyncCluster


class Capture:
    """A client that has subscribed to everything. `messages` waits until what was published has come.

    What a client in another thread has not yet handed to the system cannot be waited for: with paho, call
    `wait_for_publish` first, or `wait` here.
    """

    def __init__(self, cluster: SyncCluster, filter: str = "#", name: str = "mqtt-capture") -> None:
        self._cluster = cluster
        self._client: SyncClient = cluster.client(name)
        self._begin = 0
        self._client.subscribe(filter, qos=2)

    @property
    def messages(self) -> list[Message]:
        """All messages since the begin, or since `clear`."""
        self._cluster.settled(clients=[self._client.name])
        return self._client.received[self._begin :]

    @property
    def records(self) -> list[tuple[str, bytes]]:
        """The same as pairs of topic and payload."""
        return [(message.topic, message.payload) for message in self.messages]

    def wait(self, count: int = 1, timeout: float = TIMEOUT_S) -> list[Message]:
        """Wait until there are at least `count` messages. Raises TimeoutError that says how many there are."""
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
        """Forget what has come."""
        self._cluster.settled(clients=[self._client.name])
        self._begin = len(self._client.received)

    def publish(self, topic: str, payload: bytes | str = b"", qos: int = 0, retain: bool = False, **more: Any) -> int:
        """Publish something."""
        return self._client.publish(topic, payload, qos, retain, **more)

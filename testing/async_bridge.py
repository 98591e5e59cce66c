"""A client for asynchronous tests whose broker runs in another thread. It works in any asyncio loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any, Self, TypeVar

from ..mqtt.packets import Connack, Disconnect
from .client import TIMEOUT_S
from .client_session import Message
from .hidden_frames import of_documented_errors
from .sync import Filters, ThreadClient

__tracebackhide__ = of_documented_errors

_T = TypeVar("_T")


class BridgedClient(ThreadClient):
    """Runs a `Client` in the broker's thread; its methods are awaited in the test's loop.

    An asynchronous context manager that disconnects at its end. Times are in seconds.
    """

    async def _do(self, work: Coroutine[Any, Any, _T]) -> _T:
        return await self._thread.bridge(work)

    async def publish(
        self, topic: str, payload: bytes | str = b"", qos: int = 0, retain: bool = False, **options: Any
    ) -> int:
        """Publish and wait for the acknowledgement. Arguments, result and errors are those of `Client.publish`."""
        return await self._do(self.client.publish(topic, payload, qos, retain, **options))

    async def subscribe(self, filters: Filters, qos: int = 0, **options: Any) -> list[int]:
        """Subscribe and wait for SUBACK. Arguments, result and errors are those of `Client.subscribe`."""
        return await self._do(self.client.subscribe(filters, qos, **options))

    async def unsubscribe(self, filters: str | Iterable[str], timeout: float = TIMEOUT_S) -> list[int]:
        """Unsubscribe and wait for UNSUBACK. Result and errors are those of `Client.unsubscribe`."""
        return await self._do(self.client.unsubscribe(filters, timeout))

    async def message(self, timeout: float = TIMEOUT_S) -> Message:
        """Wait for the next message that was not taken yet. Raises `ConnectionLost` or TimeoutError."""
        return await self._thread.bridge(self.client.message(timeout), self.client.put_back)

    async def messages(self, timeout: float = TIMEOUT_S) -> AsyncIterator[Message]:
        """Yield messages as they arrive; end when none arrives for `timeout` seconds."""
        while True:
            try:
                found = await self.message(timeout)
            except TimeoutError:
                return
            yield found

    async def disconnect(self, reason: int = 0) -> None:
        """Send DISCONNECT and wait for the end of the connection."""
        await self._do(self.client.disconnect(reason))

    async def reconnect(self, node: int = 0, clean_start: bool = False, timeout: float = TIMEOUT_S) -> Connack:
        """Connect again, by default to the same session. Result and errors are those of `Client.connect`."""
        return await self._do(self.client.reconnect(node, clean_start, timeout))

    async def closed(self, timeout: float = TIMEOUT_S) -> Disconnect | None:
        """Wait until the connection has ended. Returns the broker's DISCONNECT or None; raises TimeoutError."""
        return await self._do(self.client.closed(timeout))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.disconnect()

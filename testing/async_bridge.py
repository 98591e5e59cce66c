"""A client for asynchronous tests whose broker runs in another thread; it works in any asyncio loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any, Self, TypeVar

from ..mqtt.packets import Connack, Disconnect
from .client import TIMEOUT_S
from .client_session import Message
from .sync import Filters, ThreadClient

_T = TypeVar("_T")


class BridgedClient(ThreadClient):
    """As `Client`; an asynchronous context manager that disconnects at its end."""

    async def _do(self, work: Coroutine[Any, Any, _T]) -> _T:
        return await self._thread.bridge(work)

    async def publish(
        self, topic: str, payload: bytes | str = b"", qos: int = 0, retain: bool = False, **options: Any
    ) -> int:
        """As `Client.publish`."""
        return await self._do(self.client.publish(topic, payload, qos, retain, **options))

    async def subscribe(self, filters: Filters, qos: int = 0, **options: Any) -> list[int]:
        """As `Client.subscribe`."""
        return await self._do(self.client.subscribe(filters, qos, **options))

    async def unsubscribe(self, filters: str | Iterable[str], timeout: float = TIMEOUT_S) -> list[int]:
        """As `Client.unsubscribe`."""
        return await self._do(self.client.unsubscribe(filters, timeout))

    async def message(self, timeout: float = TIMEOUT_S) -> Message:
        """As `Client.message`."""
        return await self._do(self.client.message(timeout))

    async def messages(self, timeout: float = TIMEOUT_S) -> AsyncIterator[Message]:
        """Messages as they come, until none came for `timeout` seconds."""
        while True:
            try:
                found = await self.message(timeout)
            except TimeoutError:
                return
            yield found

    async def disconnect(self, reason: int = 0) -> None:
        """As `Client.disconnect`."""
        await self._do(self.client.disconnect(reason))

    async def reconnect(self, node: int = 0, clean_start: bool = False) -> Connack:
        """As `Client.reconnect`."""
        return await self._do(self.client.reconnect(node, clean_start))

    async def closed(self, timeout: float = TIMEOUT_S) -> Disconnect | None:
        """As `Client.closed`."""
        return await self._do(self.client.closed(timeout))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.disconnect()

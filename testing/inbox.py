"""The messages that a client has received and that its test has not taken yet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from .client_session import Message


class Inbox:
    """Messages in the order of their arrival. Several tasks may wait for the next one: each gets another."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._changed = asyncio.Event()

    def put(self, message: Message) -> None:
        """Add a message that has arrived."""
        self._messages.append(message)
        self._changed.set()

    def put_back(self, message: Message) -> None:
        """Let a message that was taken be the next one again."""
        self._messages.appendleft(message)
        self._changed.set()

    def wake(self) -> None:
        """Let each task that waits check again whether a message can come."""
        self._changed.set()

    def take(self) -> list[Message]:
        """Returns all messages, and removes them."""
        taken = list(self._messages)
        self._messages.clear()
        return taken

    async def next(self, check: Callable[[], None]) -> Message:
        """Wait for the next message, and remove it. `check` raises an error if none can come any more."""
        while not self._messages:
            check()
            self._changed.clear()
            await self._changed.wait()
        return self._messages.popleft()

"""A plugin that records the messages that a simulated node drops, with the reasons."""

from __future__ import annotations

from typing import Any

from ..broker.queues.message import Message
from .engine.host import AllowAll
from .history import Dropped, History
from .workload.sender import key_of


class DropRecorder(AllowAll):
    """Allows everything, and records every dropped message in the history."""

    def __init__(self, history: History) -> None:
        self._history = history

    def on_message_drop(self, subscriber: Any, message: Message, reason: str) -> None:
        """Record a message that the node drops, because a queue is full or the message has expired."""
        history = self._history
        key = key_of(message.payload)
        history.drops.append(Dropped(subscriber[1], key, reason, history.next(), history.now()))
        history.trace("node", f"drops {key} for {subscriber[1]}: {reason}")

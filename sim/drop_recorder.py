"""The plugin that notes which messages a simulated node drops, and why."""

from __future__ import annotations

from typing import Any

from ..broker.queues.message import Message
from .engine.host import AllowAll
from .history import Dropped, History
from .workload.sender import key_of


class DropRecorder(AllowAll):
    """Allows everything, and notes every dropped message in the history."""

    def __init__(self, history: History) -> None:
        self._history = history

    def on_message_drop(self, subscriber: Any, message: Message, reason: str) -> None:
        """The node dropped a message: its queue was full, or it had expired."""
        history = self._history
        key = key_of(message.payload)
        history.drops.append(Dropped(subscriber[1], key, reason, history.next(), history.now()))
        history.trace("node", f"drops {key} for {subscriber[1]}: {reason}")

"""Which messages the event logs have: decided once, where a message enters the cluster, and carried along in its mid.

Event logs have all rows of a message, of all nodes, or none: rows of a part of its life would look like a loss. So the
node that accepts a message chooses the counter of its mid so that every node can tell (`cluster/identity.py`). It
leaves a message out

- if filters are set, and neither its publisher nor its topic is among them;
- if `eventlog.level` was lowered to `session` while the node runs. What was accepted before keeps its rows;
- if the writer does not keep up: *sampling*. It begins and ends with a row of type `log.sample`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...analytics.schema import MESSAGE
from ...mqtt.topics import matches
from ..remembered import remembered
from .events import Events
from .metrics import Counters

QUIET_MS = 1_000
"""Sampling ends when the writer has kept up for so long."""

_TOPICS = 10_000
"""Topics whose answer is remembered."""


class Choice:
    """Chooses for one node. `later(ms, function)` calls the function after so many milliseconds."""

    def __init__(self, events: Events, counters: Counters, later: Callable[[int, Callable[[], None]], object]) -> None:
        self.sampling = False
        """True while messages are left out because the writer does not keep up."""
        self._events = events
        self._counters = counters
        self._later = later
        self._open = True
        self._clients: frozenset[str] = frozenset()
        self._topics: Callable[[str], bool] | None = None
        self._sampled = self._seen = 0

    def filter(self, clients: Sequence[str], topics: Sequence[str]) -> None:
        """From now on write only messages of these clients, and messages to topics that match one of these filters.
        Without both, write all."""
        self._clients = frozenset(clients)
        wanted = tuple(topics)
        self._topics = remembered(_TOPICS, lambda topic: any(matches(each, topic) for each in wanted))
        if not clients and not topics:
            self._topics = None

    def follow_level(self, level: int) -> None:
        """Another `eventlog.level` is in force while the node runs."""
        self._open = level == MESSAGE
        self._events.set_level(max(level, self._events.level))

    def takes(self, client: str, topic: str) -> bool:
        """Whether the event logs have the rows of a message that enters the cluster now."""
        if not self._open or not (self._topics is None or client in self._clients or self._topics(topic)):
            self._counters.eventlog_messages_left_out += 1
            return False
        if self._events.pressed():
            self._leave_out()
            return False
        return True

    def _leave_out(self) -> None:
        self._counters.eventlog_messages_left_out += 1
        self._sampled += 1
        if not self.sampling:
            self.sampling = True
            self._events.emit("log.sample", state="begin")
            self._later(QUIET_MS, self._look)

    def _look(self) -> None:
        if self._sampled != self._seen or self._events.pressed():
            self._seen = self._sampled
            self._later(QUIET_MS, self._look)
            return
        self.sampling = False
        self._events.emit("log.sample", state="end", count=self._sampled)
        self._sampled = self._seen = 0

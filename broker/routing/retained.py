"""Retained messages of one mountpoint, in memory (MQTT 5.0 section 3.3.1.3).

Filters are answered in steps, from an ordered set of topics. Times are cluster time in ms. `retained_store` writes
every change to disk, or to the other nodes.
"""

from __future__ import annotations

from enum import Enum
from heapq import heappop, heappush
from typing import Any

from ...storage.sorted_keys import SortedKeys
from ..queues.message import Message
from .topic_search import TopicSearch

MESSAGE_OVERHEAD = 310
"""Bytes that a retained message takes beside its topic, payload and properties (200,000 on CPython 3.11: 306)."""
DEADLINE_OVERHEAD = 100
"""Bytes more for one that expires (measured: 100)."""
PROPERTY_OVERHEAD = 80
"""Bytes that a property, or one item of a list, takes beside its text (measured: 60 to 90)."""

_HEAP_SLACK = 64
LOOKS = 4
"""How many deadlines each new one looks at, while too many are out of date. A million at once would take 0.2 s."""


_Heap = list[tuple[int, str]]
"""Deadlines with the topics of their messages."""


class Refusal(Enum):
    """The limit that forbids a retained message. An older one of the topic stays."""

    TOO_MANY = "retained_max_messages"
    TOO_BIG = "retained_max_bytes"


def size_of(message: Message) -> int:
    """About how many bytes of memory the message takes, the same for the message's whole life."""
    size = MESSAGE_OVERHEAD + len(message.topic) + len(message.payload)
    if message.expires_at:
        size += DEADLINE_OVERHEAD
    for value in (message.properties or {}).values():
        size += PROPERTY_OVERHEAD + _value_size(value)
    return size


def _value_size(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, list | tuple):
        return sum([PROPERTY_OVERHEAD + _value_size(item) for item in value])
    return 0


class RetainedMessages:
    """The last retained message of each topic.

    `max_messages` and `max_bytes` (as `size_of` counts them) are limits, 0 for none.
    """

    def __init__(self, max_messages: int = 0, max_bytes: int = 0) -> None:
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self._messages: dict[str, Message] = {}
        self._topics: SortedKeys[str] = SortedKeys()
        self._bytes = 0
        self._deadlines: _Heap = []
        self._former: _Heap = []
        """Deadlines that were not looked at since too many were out of date; those of messages move to `_deadlines`."""
        self._expiring = 0

    def __len__(self) -> int:
        """Number of retained messages, including expired ones until `sweep` removes them."""
        return len(self._messages)

    @property
    def bytes(self) -> int:
        """About how many bytes of memory the messages take."""
        return self._bytes

    # -- changes

    def set(self, message: Message) -> Message | Refusal | None:
        """Keep the message as its topic's retained one. Returns the message that it replaced, None, or a `Refusal`.

        A message of QoS 0 also replaces [MQTT-3.3.1-5] [MQTT-3.3.1-7] [MQTT5-3.3.1-5]. An empty payload deletes
        [MQTT-3.3.1-10] [MQTT5-3.3.1-6] and is not kept [MQTT-3.3.1-11] [MQTT5-3.3.1-7]. Expired messages count against
        the limits until `sweep` removes them.
        """
        topic = message.topic
        if not message.payload:
            return self.delete(topic)
        replaced = self._messages.get(topic)
        if replaced is None and self.max_messages and len(self._messages) >= self.max_messages:
            return Refusal.TOO_MANY
        if self.max_bytes:
            growth = size_of(message) - (size_of(replaced) if replaced is not None else 0)
            if growth > 0 and self._bytes + growth > self.max_bytes:
                return Refusal.TOO_BIG
        self._put(message)
        return replaced

    def delete(self, topic: str) -> Message | None:
        """Delete the topic's message; returns it, or None if there was none."""
        return self._take(topic)

    def restore(self, topic: str, message: Message | None) -> None:
        """Set the topic's message from the store or another node, regardless of limits. None deletes it."""
        if message is None or not message.payload:
            self._take(topic)
        else:
            self._put(message)

    def sweep(self, now_ms: int, limit: int) -> list[Message]:
        """Remove expired messages and return them; looks at `limit` deadlines at most, some of them out of date.

        Call it again while 0 < `next_expiry` <= `now_ms`.
        """
        removed: list[Message] = []
        while limit > 0 and 0 < self.next_expiry <= now_ms:
            limit -= 1
            deadline, topic = heappop(self._next)
            message = self._messages.get(topic)
            if message is not None and message.expires_at == deadline:
                self._take(topic)
                removed.append(message)
        return removed

    @property
    def next_expiry(self) -> int:
        """Cluster time in ms of the next deadline for `sweep`; 0 if there is none."""
        following = self._next
        return following[0][0] if following else 0

    @property
    def _next(self) -> _Heap:
        """The heap with the next deadline."""
        now, former = self._deadlines, self._former
        return former if former and (not now or former[0] < now[0]) else now

    # -- reading

    def get(self, topic: str, now_ms: int) -> Message | None:
        """Return the topic's message; None if it has none, or if the message has expired [MQTT5-3.3.2-5]."""
        message = self._messages.get(topic)
        return message if message is not None and not 0 < message.expires_at <= now_ms else None

    def step(self, search: TopicSearch, now_ms: int, limit: int, looks: int) -> tuple[list[Message], int]:
        """Return the next unexpired messages for a new subscription, by topic, and how many topics were looked at.

        Returns at most `limit` messages and looks at no more than `looks` topics. The next call continues the search
        until it is `done`. Not for shared subscriptions, whose members get no retained messages (MQTT 5.0 section
        4.8.2).
        """
        messages = self._messages
        topics, looked = search.step(self._topics, limit, looks)
        found = [messages[topic] for topic in topics]
        return [message for message in found if not 0 < message.expires_at <= now_ms], looked

    def page(self, start: str, limit: int) -> list[Message]:
        """Return the first messages whose topics are `start` or after it, at most `limit`, including expired ones."""
        return [self._messages[topic] for topic in self._topics.following(start, limit)]

    def match(self, text: str, now_ms: int) -> list[Message]:
        """Return at once all messages that `step` finds for a filter: 1 us for each message."""
        search = TopicSearch(text)
        found: list[Message] = []
        while not search.done:
            found += self.step(search, now_ms, 1000, 1000)[0]
        return found

    # -- the structures

    def _put(self, message: Message) -> None:
        topic = message.topic
        replaced = self._messages.get(topic)
        if replaced is None:
            self._topics.add(topic)
        else:
            self._account(replaced, -1)
        self._messages[topic] = message
        self._account(message, 1)
        if message.expires_at and (replaced is None or replaced.expires_at != message.expires_at):
            self._schedule(message.expires_at, topic)

    def _take(self, topic: str) -> Message | None:
        removed = self._messages.pop(topic, None)
        if removed is not None:
            self._topics.remove(topic)
            self._account(removed, -1)
        return removed

    def _account(self, message: Message, sign: int) -> None:
        self._bytes += sign * size_of(message)
        if message.expires_at:
            self._expiring += sign

    def _schedule(self, deadline: int, topic: str) -> None:
        """Add a deadline. `sweep` skips those that are out of date; this removes some while they are the majority."""
        heappush(self._deadlines, (deadline, topic))
        if len(self._deadlines) + len(self._former) <= 2 * self._expiring + _HEAP_SLACK:
            return
        if not self._former:
            self._former, self._deadlines = self._deadlines, []
        for _ in range(min(LOOKS, len(self._former))):
            found = heappop(self._former)
            message = self._messages.get(found[1])
            if message is not None and message.expires_at == found[0]:
                heappush(self._deadlines, found)

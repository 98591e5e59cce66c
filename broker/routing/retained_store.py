"""The retained messages of all mountpoints of a node, in memory, and on disk or in the replicated map.

A standalone node keeps them in its store, one row for each topic. In a cluster `ClusterPort.retain` stores each change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ...storage.keys import retained_prefix
from ..environment import Environment
from ..queues.message import Message
from ..queues.records import decode_message, encode, to_record
from .ack_context import AckContext, unanswered
from .retained import Refusal, RetainedMessages
from .router import AFTER_COMMIT

_SWEEP_LIMIT = 1000
"""Deadlines that one sweep of a mountpoint looks at."""


class RetainedStore:
    """The retained messages of one node. Call `load` first."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._tables: dict[str, RetainedMessages] = {}

    def table(self, mountpoint: str) -> RetainedMessages:
        """The retained messages of a mountpoint, for reading only: changes need the methods of this class."""
        table = self._tables.get(mountpoint)
        if table is None:
            options = self._env.options
            table = RetainedMessages(options.retained_max_messages, options.retained_max_bytes)
            self._tables[mountpoint] = table
        return table

    @property
    def mountpoints(self) -> list[str]:
        """The mountpoints that have retained messages."""
        return sorted(mountpoint for mountpoint, table in self._tables.items() if len(table))

    @property
    def count(self) -> int:
        """Number of retained messages of all mountpoints."""
        return sum(len(table) for table in self._tables.values())

    # -- life

    def load(self) -> None:
        """Load the retained messages from the store."""
        for mountpoint, message in self.on_disk():
            self.table(mountpoint).restore(message.topic, message)

    def on_disk(self) -> Iterator[tuple[str, Message]]:
        """Yield mountpoint and message of all messages that this node retained while it was standalone."""
        for key, value in self._env.store.scan(b"r", b"s"):
            length = int.from_bytes(key[1:3], "big")
            mountpoint = key[3 : 3 + length].decode()
            yield mountpoint, decode_message(key, value, mountpoint, self._env.origins)

    def sweep_at_intervals(self) -> None:
        """Remove expired messages now and every `expire_retain_cache_s` seconds; never if that is 0. A node that does
        not know cluster time removes none: it would delete them at all nodes."""
        env = self._env
        if not env.options.expire_retain_cache_s:
            return
        context = unanswered()
        for mountpoint in list(self._tables) if env.clock.known else ():
            self.sweep(mountpoint, env.now, _SWEEP_LIMIT, context)
        env.timers.at(env.now + env.options.expire_retain_cache_s * 1000, self.sweep_at_intervals)

    # -- changes

    def retain(self, message: Message, context: AckContext) -> int:
        """Store the retained message of a topic; delete it if the payload is empty.

        Returns `AFTER_COMMIT` if the acknowledgement waits for the disk, else 0. The conditions on other nodes are
        added to `context` (P4). While the disk takes nothing, a message with QoS 0 is refused. One with QoS 1 or 2 was
        accepted before, so it is stored, and its acknowledgement waits until the disk takes it (H-16).
        """
        env = self._env
        if not message.qos and not env.store.accepting:
            return self._refuse(message, f"store_{env.store.state}")
        replaced = self.table(message.mountpoint).set(message)
        if isinstance(replaced, Refusal):
            return self._refuse(message, replaced.value)
        if message.payload:
            self._write(message.mountpoint, message.topic, message, context)
        elif replaced is not None:
            self._write(message.mountpoint, message.topic, None, context)
        else:
            # this node may have deleted it a moment ago; the acknowledgement promises that no other node has it
            env.cluster.confirm_deleted(message.mountpoint, message.topic, context)
        self.report(message.mountpoint, message.topic, message)
        # also wait for a write of another client a moment ago: this acknowledgement promises the same state
        return AFTER_COMMIT if env.store.bytes_waiting else 0

    def report(self, mountpoint: str, topic: str, message: Message | None) -> None:
        """Report the retained message that a topic has now, or that it has none. A client or an operator of this node
        has changed that, or another node; or it has expired."""
        env = self._env
        if env.events.messages:
            payload = message.payload if message is not None else b""
            mid = message.mid if message is not None else None
            digest = hashlib.blake2b(payload, digest_size=8).hexdigest()
            env.event("ret.set", topic=topic, mountpoint=mountpoint, mid=mid, bytes=len(payload), digest=digest)

    def delete(self, mountpoint: str, topic: str, context: AckContext) -> bool:
        """Delete the retained message of a topic; False if there was none."""
        if self.table(mountpoint).delete(topic) is None:
            return False
        self._write(mountpoint, topic, None, context)
        self.report(mountpoint, topic, None)
        return True

    def sweep(self, mountpoint: str, now_ms: int, limit: int, context: AckContext) -> int:
        """Delete expired messages as `RetainedMessages.sweep` does; returns how many."""
        removed = self.table(mountpoint).sweep(now_ms, limit)
        for message in removed:
            self._write(mountpoint, message.topic, None, context)
            self.report(mountpoint, message.topic, None)
        return len(removed)

    def _refuse(self, message: Message, reason: str) -> int:
        self._env.counters.drop(reason)
        self._env.event("ret.refuse", topic=message.topic, client=message.publisher, reason=reason)
        return 0

    def _write(self, mountpoint: str, topic: str, message: Message | None, context: AckContext) -> None:
        env = self._env
        if env.cluster.retain(mountpoint, topic, message, context):
            return
        key = retained_prefix(mountpoint) + topic.encode()
        if message is None:
            env.store.delete(key)
        else:
            env.store.put(key, encode(to_record(message)))

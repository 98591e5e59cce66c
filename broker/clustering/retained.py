"""Retained messages as entries of the replicated map: every node of the cluster has all of them (P4).

A node leaves out an entry that it cannot read, and logs it: every node has the entry, and it must not stop any node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...storage.keys import retained_prefix
from ..queues.message import Message
from ..queues.records import RecordError, decode_message, encode, to_record

if TYPE_CHECKING:
    from ...cluster.node import ClusterNode
    from ..node import Node

RETAINED = b"t"


class SharedRetained:
    """Keeps a node's tables of retained messages and the replicated map in step."""

    def __init__(self, node: Node, member: ClusterNode) -> None:
        self._node = node
        self._member = member
        self._metadata = member.metadata
        self._metadata.let_give_way(self._gives_way)
        node.env.clock.newcomer_set = self._move_deadlines
        self._gone: dict[bytes, Message] = {}
        """What others have changed or deleted before this node knows cluster time; perhaps they took it for expired."""

    def _gives_way(self, peer: str) -> bool:
        """Whether this node never acknowledged what a peer lacks: it is back and has no lease yet, and the peer serves.

        A newcomer brings what it has acknowledged, and so does a node that accepts publishes without a lease.
        """
        member = self._member
        own, row = member.membership.members.get(member.me.node), member.view.row(peer)
        served = own is not None and own.disk == member.me.disk and own.disk_served
        if not served or row is None or not row.serving or member.leased():
            return False
        return "publish" not in self._node.policy.operations_on

    def load(self) -> None:
        """Load retained messages from the map, and put into it those that this node kept while it was standalone."""
        node, metadata = self._node, self._metadata
        for key, value in metadata.scan(RETAINED):
            self._restore(key, value)
        for mountpoint, message in node.retained.on_disk():
            key = key_of(mountpoint, message.topic)
            if metadata.get(key) is None:
                metadata.put(key, encode(to_record(message)))
            node.env.store.delete(retained_prefix(mountpoint) + message.topic.encode())

    def _move_deadlines(self, by_ms: int) -> None:
        """This node joins, and its clock is set: what it has retained keeps its remaining time."""
        node, metadata = self._node, self._metadata
        for mountpoint in node.retained.mountpoints:
            table = node.retained.table(mountpoint)
            for message in table.page("", len(table)):
                if message.expires_at and metadata.is_own(key_of(mountpoint, message.topic)):
                    self._move(message, by_ms)
        now = node.env.clock.now_ms()
        for key, message in self._gone.items():
            if message.expires_at <= now and metadata.get(key) is None:
                self._move(message, by_ms)
        self._gone.clear()

    def _move(self, message: Message, by_ms: int) -> None:
        moved = replace(message, expires_at=max(1, message.expires_at + by_ms))
        self._node.retained.table(message.mountpoint).restore(message.topic, moved)
        self.keep(message.mountpoint, message.topic, moved)

    def keep(self, mountpoint: str, topic: str, message: Message | None) -> int | None:
        """A client of this node changed the retained message of a topic. Returns the number of the write, if any."""
        key = key_of(mountpoint, topic)
        return self._metadata.delete(key) if message is None else self._metadata.put(key, encode(to_record(message)))

    def delete_again(self, key: bytes, counter: int) -> int | None:
        """The deletion `counter` is on all nodes. If it has met a message that does not know of it, delete that too.

        Returns the number of the new deletion; None if there is none."""
        if not self._metadata.lost(key, counter):
            return None
        again = self._metadata.delete(key)
        self.changed(key, None)
        return again

    def changed(self, key: bytes, value: bytes | None) -> None:
        """An entry has this value now, or none: another node changed it."""
        where = self._restore(key, value)
        if where is not None:
            self._node.retained.report(*where)

    def _restore(self, key: bytes, value: bytes | None) -> tuple[str, str, Message | None] | None:
        """Returns mountpoint, topic and its retained message; None if the entry cannot be read."""
        node = self._node
        length = int.from_bytes(key[1:3], "big")
        try:
            mountpoint, topic = key[3 : 3 + length].decode(), key[3 + length :].decode()
            message = None if value is None else decode_message(key, value, mountpoint, node.env.origins)
        except (RecordError, UnicodeDecodeError) as error:
            node.env.log("error", f"a retained message of the cluster is left out, key {key!r}: {error}")
            return None
        table = node.retained.table(mountpoint)
        if node.env.clock.newcomer and (had := table.get(topic, node.env.now)) is not None and had.expires_at:
            self._gone[key] = had
        table.restore(topic, message)
        return mountpoint, topic, message


def key_of(mountpoint: str, topic: str) -> bytes:
    """The key of a retained message in the map."""
    return RETAINED + retained_prefix(mountpoint)[1:] + topic.encode()

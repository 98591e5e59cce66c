"""Which nodes take this node's messages too slowly, and the connections that are not read because of that.

A node is slow if too much waits for its link, or for its disk. A disk without progress must not fill the lane, because
copies that need no disk use it too: so half a window may wait for the disk.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol
from weakref import WeakValueDictionary

from ..cluster_port import Pausable


class Windows(Protocol):
    """What this needs of the links: see `forward_sender.PublishLanes`."""

    slow: Collection[str]
    slow_map: Collection[str]
    window_bytes: int


class SlowNodes:
    """The nodes for which publishers have to wait."""

    def __init__(self, lanes: Windows) -> None:
        self._lanes = lanes
        self.disk_bytes: dict[str, int] = {}
        """For each node the bytes under way that wait for its disk."""
        self._hit: dict[str, str] = {}
        """Slow nodes that a message was for, and the last client that published such a message."""
        self._paused: dict[str, WeakValueDictionary[int, Pausable]] = {}
        self._pauses = 0

    def hit(self, name: str, publisher: str) -> None:
        """Note that a message of this client is for a slow node."""
        self._hit[name] = publisher

    def waits_for_disk(self, name: str, size: int, publisher: str, absent: bool) -> None:
        """A message of this many bytes waits for the disk of a node. Those for an absent node have another bound
        (`PublishLanes.slow`)."""
        waiting = self.disk_bytes[name] = self.disk_bytes.get(name, 0) + size
        if waiting > self._lanes.window_bytes // 2 and not absent:
            self._hit[name] = publisher

    def on_disk(self, name: str, size: int) -> None:
        """This many bytes do not wait for the node's disk any more."""
        self.still_wait(name, self.disk_bytes[name] - size)

    def still_wait(self, name: str, left: int) -> None:
        """This many bytes still wait for the node's disk. It has the others, or their copies have ended, or these have
        followed their slots to other nodes."""
        before = self.disk_bytes.get(name, 0)
        self.disk_bytes[name] = left
        if before > self._lanes.window_bytes // 4 >= left:
            self.relieved(name)

    def hit_by(self, publisher: str) -> str:
        """Return a slow node that a message of this client was for since the last call; "" if none."""
        if not self._hit:
            return ""
        hit, self._hit = self._hit, {}
        return next((name for name, client in hit.items() if client == publisher and self._crowded(name)), "")

    def _crowded(self, name: str) -> bool:
        """True if `relieved` will be called for the node. Otherwise a connection that pauses now stays paused."""
        waits = self.disk_bytes.get(name, 0) > self._lanes.window_bytes // 4
        return waits or name in self._lanes.slow or name in self._lanes.slow_map

    def pause(self, name: str, connection: Pausable) -> None:
        """Unpause this connection when the node is not slow any more."""
        self._pauses += 1
        self._paused.setdefault(name, WeakValueDictionary())[self._pauses] = connection

    def relieved(self, name: str) -> None:
        """Unpause the connections that wait for the node: fewer bytes wait for it, or it has left the view. Their next
        packets come in a later turn."""
        for connection in list(self._paused.pop(name, WeakValueDictionary()).values()):
            connection.unpause("cluster")

"""Copies that wait until the lane to their node has room, and the publishers that are not read because of them.

A lane is first in, first out. While it is full, further copies wait here, and publishers take turns to enter it
(`FairQueue`). So no message waits behind thousands of messages of another publisher. If many bytes wait for a node, a
publisher with more than its share of them is not read until half of that share is left. The others are still read.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct

from ..cluster_port import Pausable
from .fair_queue import FairQueue

if TYPE_CHECKING:
    from ..node import Node

SAY_AGAIN_MS = 10_000
"""A publisher that sends too much to a node is paused many times. An episode ends if none was paused for this time."""

NAMED = 5
"""The log names this many of the paused clients."""

ITEM_BYTES = 16
"""Bytes that a copy counts besides its payload, as in the lane."""

Copy = TypeVar("Copy")
Publisher = tuple[str, str]
"""Mountpoint and client id; the client id is empty if no client published the message."""


class Beside(Protocol):
    """The port to the links: a copy that waits here counts as if it were in the lane."""

    ahead_bytes: int
    behind_bytes: int

    def beside(self, node: str, items: int, size_bytes: int) -> None:
        """Report how many items and bytes wait here for the node."""
        ...


class _Episode(Struct):
    """A time in which publishers to one node are paused: when one was last paused, in ms, and the first client ids."""

    last_ms: int
    clients: list[str]


class WaitingCopies(Generic[Copy]):
    """The waiting copies of each node."""

    def __init__(self, node: Node, lanes: Beside) -> None:
        self._node = node
        self._lanes = lanes
        self.queues: dict[str, FairQueue[tuple[bytes, Copy]]] = {}
        """The waiting copies, for each node that has any."""
        self._told: dict[str, int] = {}
        """For each node the size of its queue in bytes at which the links get the next report."""
        self._paused: dict[str, dict[Publisher, WeakValueDictionary[int, Pausable]]] = {}
        self._episodes: dict[str, _Episode] = {}

    def put(self, name: str, publisher: Publisher, payload: bytes, copy: Copy) -> None:
        """Let a copy wait for the node, behind all waiting copies of its publisher."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = FairQueue(max(1, self._lanes.ahead_bytes // 16))
            self._told[name] = 0
        queue.put(publisher, len(payload) + ITEM_BYTES, (payload, copy))
        if queue.size_bytes >= self._told[name]:
            self._tell(name, queue)

    def _tell(self, name: str, queue: FairQueue[tuple[bytes, Copy]]) -> None:
        """Report the size to the links in steps: after each message would be too often."""
        self._told[name] = queue.size_bytes + self._lanes.ahead_bytes // 4
        self._lanes.beside(name, queue.items, queue.size_bytes)

    def take(self, name: str) -> list[tuple[bytes, Copy]]:
        """Take some of the next copies, fewer than a lane that is not full has room for."""
        return self._take(name, max(1, self._lanes.ahead_bytes // 4))

    def take_all(self, name: str) -> list[tuple[bytes, Copy]]:
        """Take all copies that wait for a node, in order; read the connections again that were paused for it."""
        queue = self.queues.get(name)
        taken = [] if queue is None else self._take(name, queue.size_bytes)
        self.relieve(name)
        return taken

    def _take(self, name: str, size_bytes: int) -> list[tuple[bytes, Copy]]:
        queue = self.queues[name]
        taken = queue.take(size_bytes)
        if not queue.items:
            del self.queues[name]
        self._tell(name, queue)
        return taken

    def copies(self, name: str) -> Iterator[Copy]:
        """The copies that wait for a node, in the order of each publisher."""
        for _, copy in self.queues.get(name, ()):
            yield copy

    def __len__(self) -> int:
        return sum(queue.items for queue in self.queues.values())

    # -- paused connections

    def crowded_by(self, publisher: Publisher) -> str:
        """Return the name of a node for which too many bytes wait, many of them of this publisher; "" if none."""
        return next((name for name in self.queues if self._too_much(name, publisher)), "")

    def _too_much(self, name: str, publisher: Publisher) -> bool:
        queue, lanes = self.queues[name], self._lanes
        return queue.size_bytes > lanes.behind_bytes and queue.waits_of(publisher) > lanes.ahead_bytes

    def pause(self, name: str, connection: Pausable) -> bool:
        """Unpause the connection once fewer bytes of its client wait for the node. False, and nothing happens, if the
        client has no more than its share."""
        publisher = (connection.mountpoint, connection.client_id)
        if name not in self.queues or not self._too_much(name, publisher):
            return False
        connections = self._paused.setdefault(name, {}).setdefault(publisher, WeakValueDictionary())
        connections[id(connection)] = connection
        self._say(name, connection.client_id)
        return True

    def relieve(self, name: str) -> None:
        """Read the paused connections again whose clients have few bytes waiting for the node."""
        paused = self._paused.get(name)
        if not paused:
            return
        queue, most = self.queues.get(name), self._lanes.ahead_bytes // 2
        for publisher in [each for each in paused if queue is None or queue.waits_of(each) <= most]:
            # not in this turn: their next packets may be for the same lane
            self._node.env.after_turn(partial(_unpause, paused.pop(publisher)))
        if not paused:
            del self._paused[name]

    def _say(self, name: str, client_id: str) -> None:
        now = self._node.env.now
        episode = self._episodes.get(name)
        if episode is None:
            episode = self._episodes[name] = _Episode(now, [])
            waits = self.queues[name].size_bytes >> 10
            self._node.env.log(
                "warning",
                f"client {client_id} publishes more for {name} than the link takes: {waits} KiB of all clients wait. "
                "This node does not read from the client while too much of that is from this client",
            )
            self._node.env.timers.at(now + SAY_AGAIN_MS, lambda: self._look_again(name))
        episode.last_ms = now
        if len(episode.clients) <= NAMED and client_id not in episode.clients:
            episode.clients.append(client_id)

    def _look_again(self, name: str) -> None:
        episode = self._episodes[name]
        over_ms = episode.last_ms + SAY_AGAIN_MS
        if over_ms > self._node.env.now or name in self._paused:
            self._node.env.timers.at(
                max(over_ms, self._node.env.now + SAY_AGAIN_MS // 10), lambda: self._look_again(name)
            )
            return
        del self._episodes[name]
        clients = ", ".join(episode.clients[:NAMED]) + (" and others" if len(episode.clients) > NAMED else "")
        self._node.env.log("info", f"no client is held back for {name} any more; these were: {clients}")


def _unpause(connections: WeakValueDictionary[int, Pausable]) -> None:
    for connection in list(connections.values()):
        connection.unpause("cluster")

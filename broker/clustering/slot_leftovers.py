"""Deletes the rows of slots that have moved to another node, and of attempts that came to nothing.

The router sends messages for these sessions to their node, because it knows their subscriptions from the rows. So a row
of a subscription stays until this node has the route that the present node of the slot has written. If the slot was
lost there and comes back to this node, its sessions are lost: the rows wait for no route.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from ...storage import keys
from ...storage.engine import StorageError
from ..node import Node
from ..queues.records import RecordError
from .routes import prefix_to_slot, writer_of

STEP = 200
"""Rows that one turn deletes."""
PAUSE_MS = 1_000
"""How long to wait for the routes of the present node."""


class SlotLeftovers:
    """The slots that this node deletes. `route` returns the value of a key of the replicated map, `is_back` whether
    this node is the primary of a slot again. `clear` is called with each slot whose rows are gone."""

    def __init__(
        self,
        node: Node,
        route: Callable[[bytes], bytes | None],
        is_back: Callable[[int], bool],
        clear: Callable[[int], None],
    ) -> None:
        self._node = node
        self._route = route
        self._is_back = is_back
        self._clear = clear
        self._slots: dict[int, Iterator[tuple[bytes, bytes]]] = {}

    def __contains__(self, slot: int) -> bool:
        return slot in self._slots

    def start(self, slot: int) -> None:
        """Delete the rows of this slot in later turns."""
        if slot not in self._slots:
            self._slots[slot] = rows = self._ready(slot)
            self._later(slot, rows)

    def stop(self, slot: int) -> None:
        """The slot is this node's after all: delete no more of it."""
        self._slots.pop(slot, None)

    def _later(self, slot: int, rows: Iterator[tuple[bytes, bytes]]) -> None:
        self._node.env.after_turn(lambda: self._step(slot, rows))

    def _ready(self, slot: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows that are deleted, and an empty one for each pause."""
        for key, value in self._node.slot_sessions.forget(slot):
            while key[:1] == b"b" and self._awaits(slot, key):
                yield b"", b""
            yield key, value

    def _awaits(self, slot: int, key: bytes) -> bool:
        """True if the route for this subscription is still one that this node has written, and another node is to write
        it."""
        if self._is_back(slot):
            return False
        client, text = keys.parse_subscription_key(key)
        value = self._route(prefix_to_slot(keys.mountpoint_of(client), slot) + text.encode())
        return value is not None and writer_of(value) == self._node.name

    def _step(self, slot: int, rows: Iterator[tuple[bytes, bytes]]) -> None:
        env = self._node.env
        if self._slots.get(slot) is not rows or env.store.state == "closed":
            return
        env.tick()
        seen = 0
        try:
            for key, _ in islice(rows, STEP):
                if not key:
                    env.timers.at(env.now + PAUSE_MS, lambda: self._step(slot, rows))
                    return
                seen += 1
        except (StorageError, RecordError) as error:
            env.log("error", f"slot {slot} has left this node, and its rows cannot be deleted: {error}")
            del self._slots[slot]
            return
        if seen == STEP:
            # one step for each commit, so that the deletions never outweigh the traffic in a batch
            env.store.when_landed(env.store.open_commit, lambda: self._later(slot, rows))
            return
        del self._slots[slot]
        self._clear(slot)

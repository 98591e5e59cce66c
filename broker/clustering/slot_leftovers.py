"""Deletes the rows of slots that have moved to another node, and of attempts that came to nothing.

The router sends messages for these sessions to their node, because it knows their subscriptions from the rows. So a row
of a subscription stays until this node has the route that the present node of the slot has written. If the slot was
lost there and comes back to this node, its sessions are lost: the rows wait for no route.

A node that returns may have the rows of all slots. It deletes those of one slot after the other, some in each turn,
and waits for the disk between two turns. A slot that comes to this node meanwhile, as an empty one, is closed until its
former rows are gone. So it is first, and a turn goes on with the next slot: most of them have few rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

from ...storage import keys
from ...storage.engine import StorageError
from ..node import Node
from ..queues.records import RecordError
from .routes import prefix_to_slot, writer_of

STEP = 200
"""Rows that one turn deletes, of all slots together."""
PAUSE_MS = 1_000
"""How long to wait for the routes of the present node."""
LONG = 60
"""Pauses after which the log has a warning: a route that its writer has in memory comes within seconds."""


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
        self._queue: deque[tuple[int, Iterator[tuple[bytes, bytes]]]] = deque()
        """The slots of which the next turns delete rows: those of `_slots` that wait for no route."""
        self._deleting = False
        self._problems: dict[int, str] = {}
        """Slots whose rows could not be deleted so far, and the error of the last attempt."""

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
        self._queue.append((slot, rows))
        if not self._deleting:
            self._deleting = True
            self._node.env.background(self._step)

    def _ready(self, slot: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows that are deleted, and an empty one for each pause. A pause has no end of its own: without the
        rows this node would send nothing to the subscriber."""
        paused = 0
        for key, value in self._node.slot_sessions.forget(slot):
            while key[:1] == b"b" and self._awaits(slot, *keys.parse_subscription_key(key)):
                paused += 1
                if paused == LONG:
                    self._warn(slot, keys.parse_subscription_key(key)[1])
                yield b"", b""
            yield key, value

    def _awaits(self, slot: int, client: bytes, text: str) -> bool:
        """True if the route for this subscription is still one that this node has written, and another node is to write
        it."""
        if self._is_back(slot):
            return False
        value = self._route(prefix_to_slot(keys.mountpoint_of(client), slot) + text.encode())
        return value is not None and writer_of(value) == self._node.name

    def _warn(self, slot: int, text: str) -> None:
        self._node.env.log(
            "warning",
            f"slot {slot} has left this node, which keeps its rows: for {LONG * PAUSE_MS // 1000} s the slot's present "
            f"node has not written that it has subscribers of {text!r}; see `vmq-admin slot show` for that node",
        )

    def _step(self) -> None:
        env = self._node.env
        if env.store.state == "closed":
            return
        env.tick()
        left = STEP
        while self._queue and left > 0:
            slot, rows = self._next()
            if self._slots.get(slot) is rows:  # else it was stopped
                left -= 1 + self._delete(slot, rows, left)
        if self._queue:
            # one step for each commit, so that the deletions never outweigh the traffic in a batch
            env.store.when_landed(env.store.open_commit, lambda: env.background(self._step))
        else:
            self._deleting = False

    def _next(self) -> tuple[int, Iterator[tuple[bytes, bytes]]]:
        """Take a slot out of the queue. One that is this node's again is first: its clients wait."""
        found = next((each for each in self._queue if self._is_back(each[0])), self._queue[0])
        self._queue.remove(found)
        return found

    def _delete(self, slot: int, rows: Iterator[tuple[bytes, bytes]], most: int) -> int:
        """Delete some rows of a slot, and put it into the queue again if there are more. Returns their number."""
        env = self._node.env
        seen = 0
        try:
            for key, _ in islice(rows, most):
                if not key:
                    env.timers.at(env.now + PAUSE_MS, lambda: self._later(slot, rows))
                    return seen
                seen += 1
        except (StorageError, RecordError) as error:
            self._failed(slot, str(error))
            return seen
        if seen == most:
            self._queue.appendleft((slot, rows))
            return seen
        del self._slots[slot]
        self._problems.pop(slot, None)
        self._clear(slot)
        return seen

    def _failed(self, slot: int, problem: str) -> None:
        """Begin again after a pause. Meanwhile the slot stays closed: if it comes back, what is left is not opened."""
        env = self._node.env
        if self._problems.get(slot) != problem:
            env.log("error", f"slot {slot} has left this node, and its rows cannot be deleted yet: {problem}")
        self._problems[slot] = problem
        self._slots[slot] = rows = self._ready(slot)
        env.timers.at(env.now + PAUSE_MS, lambda: self._later(slot, rows))

"""Sends the dots that a peer lacks, in steps: the sending half of an exchange, for one half of the map.

The difference of the two clocks gives the dots that the peer lacks, and the log gives their keys. Each key is sent with
its present siblings. If the clocks are equal, nothing else is read.

If the peer lacks dots at or below the log's floor (it was emptied, or restarted and lost its volatile half), the sender
first walks through all buckets. The peer drops each value that it has and the sender lacks, if the sender's clock has
seen it. If the peer has had all dots of a key, the sender sends only the dots. For a key that it will reach through the
log, it sends only the name.

Only the last step covers the ranges of dots. A dot may have no entry in the log, because its key was overwritten before
this node heard of it, and the write that replaced it comes later in the log. If the dot were covered earlier and the
exchange broke off, the peer would take an old value for the newest. Until then each dot is marked with its key.
"""

from __future__ import annotations

from . import intervals
from .actors import COUNTER, SHIFT
from .dvv import Siblings
from .messages import Part, PartWriter
from .replica import BUCKETS, Replica
from .version_vector import VersionVector

STEP_KEYS = 100
"""Keys per batch (vmq_swc.exchange_batch_size)."""

STEP_BYTES = 256 * 1024


class DeltaSender:
    """The parts of `replica` that the owner of clock `theirs` lacks. `step()` returns them one by one, then None."""

    def __init__(self, half: int, replica: Replica, theirs: VersionVector, step_keys: int = STEP_KEYS) -> None:
        self._half = half
        self._replica = replica
        self._theirs = theirs
        self._step_keys = step_keys
        self.keys_compared = 0
        self._begin()

    def _begin(self) -> None:
        replica, theirs = self._replica, self._theirs
        self._missing = theirs.lacks(replica.clock)
        self._was_folded = mine = dict(replica.clock.folded)
        self._folded = any(theirs.folded.get(node, 0) < boot for node, boot in mine.items())
        floor = replica.log.floor
        self.walks = theirs.differs_in_folded(replica.clock) or any(
            low < floor.get(actor, 0) for actor, low, high in self._missing if low < high
        )
        self._bucket = 0 if self.walks else BUCKETS
        self._floor = dict(floor)
        self._wanted: dict[int, list[int]] = {}
        for actor, low, high in self._missing:
            if max(low, self._floor.get(actor, 0)) < high:
                self._wanted.setdefault(actor, []).extend((max(low, self._floor.get(actor, 0)), high))
        self._todo = [
            (actor, low, high) for actor, wanted in self._wanted.items() for low, high in intervals.pairs(wanted)
        ]
        self._done = not self._missing and not self._folded

    @property
    def empty(self) -> bool:
        """Whether there is nothing (more) to send. True before the first step if the peer lacks nothing."""
        return self._done

    def step(self) -> Part | None:
        """Returns the next part; None after the last one, which covers all ranges."""
        if self._done:
            return None
        if self._replica.clock.folded != self._was_folded:
            self._begin()  # this node folded a boot meanwhile: it has no log of that boot, and the peer may lack dots
        writer = PartWriter(self._half, self._replica.clock)
        if self._bucket < BUCKETS:
            self._walk(writer)
            return writer.part
        room = self._step_keys
        size = 0
        sent: set[bytes] = set()
        while self._todo and room > 0 and size < STEP_BYTES:
            actor, low, high = self._todo[0]
            entries = self._replica.log.between(actor, low, high, room)
            reached = high if len(entries) < room else entries[-1][0]
            for counter, key in entries:
                room -= 1
                if key not in sent:
                    sent.add(key)
                    size += writer.add(key, self._replica.siblings(key), self._replica.key_context(key))
                if size >= STEP_BYTES:
                    reached = counter
                    break
            if reached == high:
                self._todo.pop(0)
            else:
                self._todo[0] = (actor, reached, high)
        self.keys_compared += len(sent)
        if not self._todo:
            self._done = True
            writer.part.covered_ranges = [(writer.position(actor), low, high) for actor, low, high in self._missing]
            writer.part.claim_folded = self._folded
            if self.walks:
                writer.part.buckets = (BUCKETS, BUCKETS)  # all buckets were sent before
        return writer.part

    def _walk(self, writer: PartWriter) -> None:
        """Add whole buckets until the step is full."""
        part = writer.part
        first = self._bucket
        room, size = self._step_keys, 0
        while self._bucket < BUCKETS and room > 0 and size < STEP_BYTES:
            for key, siblings in self._replica.buckets[self._bucket].items():
                room -= 1
                if self._comes_later(siblings):
                    part.named.append(key)
                    size += len(key)
                else:
                    had = all(self._theirs.covers(dot) for dot in siblings[::2])
                    size += writer.add(key, siblings, self._replica.key_context(key), values=not had)
            self._bucket += 1
        self.keys_compared += self._step_keys - room
        part.buckets = (first, self._bucket)
        clock, numbers = self._replica.clock, self._replica.clock.actors
        part.floors = [
            COUNTER if clock.is_folded(actor) else self._floor.get(actor, 0)
            for actor in (numbers.number(node, boot) for node, boot in part.actors)
        ]

    def _comes_later(self, siblings: Siblings) -> bool:
        """Whether the log reaches this key later: then the key is sent in the order of dots, which is cheap to mark."""
        wanted = self._wanted
        for dot in siblings[::2]:
            spans_wanted = wanted.get(dot >> SHIFT)
            if spans_wanted is not None and intervals.has(spans_wanted, dot & COUNTER):
                return True
        return False

"""Applies a part of a peer's message to a replica: merges its keys, adds its dots to the clock, records gaps."""

from __future__ import annotations

from . import dvv
from .actors import COUNTER, SHIFT, Actors
from .dvv import Siblings
from .messages import Item, Part, clock_of, context_of, siblings_of
from .replica import Replica
from .version_vector import VersionVector


class DeltaApplier:
    """The receiving side of all parts. `gap` is True after `absorb` if dots before a covered range are missing."""

    def __init__(self, actors: Actors) -> None:
        self._actors = actors
        self.gap = False

    def absorb(self, replica: Replica, part: Part) -> list[bytes]:
        """Apply a part. Returns the keys whose record on the disk must be written again."""
        numbers = [self._actors.number(node, boot) for node, boot in part.actors]
        context = clock_of(part, self._actors)
        clock = replica.clock
        floors = {number: floor for number, floor in zip(numbers, part.floors, strict=False) if floor}
        touched = []
        key_context: dict[bytes, VersionVector] = {}
        for item in part.items:
            theirs = self._theirs(replica, item, numbers)
            seen = context
            if item.key_context is not None:
                seen = key_context[item.key] = context_of(item.key_context, context, numbers)
            if replica.merge(item.key, theirs, seen):
                touched.append(item.key)
            marks = theirs[::2]
            if floors:
                marks = tuple(dot for dot in marks if dot & COUNTER > floors.get(dot >> SHIFT, 0))
            replica.mark(item.key, marks)
        if part.buckets is not None:
            touched += self._sweep(replica, part, context)
            for number, floor in floors.items():
                if floor < COUNTER:  # not marked above, so not in this node's log either
                    replica.log.raise_floor(number, floor)
        self.gap = False
        for position, low, high in part.covered_ranges:
            actor = numbers[position]
            if low < high and clock.base(actor) < low and not clock.is_folded(actor):
                self.gap = True
            clock.add(actor, low, high)
        if part.claim_folded:
            for node, boot in part.folded.items():
                replica.fold(node, boot, by_peer=part.buckets is not None)
        if (part.items or part.buckets is not None) and not clock.dominates(context):
            keys = [item.key for item in part.items]
            self._note(replica, keys, context)
            touched = list(dict.fromkeys([*touched, *keys]))
        for key, seen in key_context.items():
            if not clock.dominates(seen):
                self._note(replica, [key], seen)
                touched.append(key)
        if len(replica.key_contexts):
            replica.key_contexts.retire(clock)
        return touched

    def _note(self, replica: Replica, keys: list[bytes], context: VersionVector) -> None:
        """Record that these keys have seen `context`, which is more than the clock.

        The actors of the context become known, so that their boots can be folded later, even if the peer that saw them
        restarts and no message names them again.
        """
        for actor in context.seen:
            replica.clock.add(actor, 0, 0)
        for node, boot in context.folded.items():
            replica.clock.add(self._actors.number(node, boot), 0, 0)
        replica.key_contexts.note(keys, context)

    def _theirs(self, replica: Replica, item: Item, numbers: list[int]) -> Siblings:
        theirs = siblings_of(item, numbers)
        if item.values or not item.dots:
            return theirs
        # The item has only dots: this node had the values, and still has them or has seen their replacements.
        named = theirs[::2]
        held = [(dot, value) for dot, value in dvv.pairs(replica.siblings(item.key)) if dot in named]
        return tuple(piece for entry in held for piece in entry)

    def _sweep(self, replica: Replica, part: Part, context: VersionVector) -> list[bytes]:
        """In whole buckets, drop the siblings that the peer has seen but no longer has."""
        assert part.buckets is not None
        present = {item.key for item in part.items}
        present.update(part.named)
        absent = [key for number in range(*part.buckets) for key in replica.buckets[number] if key not in present]
        return [key for key in absent if replica.merge(key, dvv.NOTHING, context)]

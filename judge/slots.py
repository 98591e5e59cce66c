"""What nodes say of slots: when one left a node, and when its next primary may have lacked acknowledged changes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from .rows import NEVER, Row, slots_of

TYPES: Final = frozenset(("slot.arrive", "slot.move", "slot.moved", "slot.taken", "slot.loss_possible"))
"""The types of rows that are read."""


class Slots:
    """The slots of all nodes. `note` takes rows of `TYPES`, in order."""

    def __init__(self) -> None:
        self.left: dict[tuple[str, int], list[int]] = {}
        """(node, slot) -> stamps at which the slot went to another node."""
        self.taken: dict[tuple[str, int], list[int]] = {}
        """(node, slot) -> stamps at which the node learned that another one had taken the slot over."""
        self._arrived: dict[tuple[str, int], list[int]] = {}
        """(node, slot) -> stamps at which the node said that it is the next primary."""
        self._moves: dict[tuple[str, int], list[tuple[int, str]]] = {}
        """(node, slot) -> stamps at which the node began to give the slot to another one, and to which."""
        self._lost: dict[int, list[int]] = {}
        """Slot -> stamps at which the cluster gave up its last copy."""
        self._doubtful: dict[int, list[int]] = {}
        """Slot -> stamps at which it got a primary that may lack changes."""
        self._known: set[tuple[str, int]] = set()
        """Node and view: which primaries `_doubtful` has. Each node says it when it learns of the view."""

    def note(self, row: Row) -> None:
        """Read the next row; others than those of `TYPES` have no effect."""
        kind, stamp = row["type"], row["hlc"]
        if kind == "slot.loss_possible":
            self._doubt(row)
        elif kind == "slot.arrive":
            self._arrived.setdefault((row["node"], row["slot"]), []).append(stamp)
        elif kind == "slot.move":
            self._moves.setdefault((row["node"], row["slot"]), []).append((stamp, row["target"]))
        elif kind in TYPES:
            self.left.setdefault((row["node"], row["slot"]), []).append(stamp)
            if kind == "slot.taken":
                self.taken.setdefault((row["node"], row["slot"]), []).append(stamp)

    def lose(self, row: Row) -> None:
        """Read the first `slot.lost` about a disk."""
        for slot in slots_of(row["slots"]):
            self._lost.setdefault(slot, []).append(row["hlc"])

    def lost_after(self, slot: int, since: int) -> bool:
        """Whether the cluster gave up the last copy of a slot after a stamp."""
        return any(since < stamp for stamp in self._lost.get(slot, ()))

    def arrived(self, node: str, slot: int, since: int, until: int) -> int | None:
        """Returns the first stamp between two at which a node said that a slot has arrived; None if there is none."""
        there = self._arrived.get((node, slot), ())
        return next((stamp for stamp in there if since < stamp < until), None)

    def next_home(self, node: str, slot: int, stamp: int) -> str:
        """Returns the node that a slot was on its way to at a stamp, when `node` was the last one that had it; `node`
        itself if it was on no way."""
        moves = [each for each in self._moves.get((node, slot), ()) if each[0] < stamp]
        if not moves:
            return node
        since, target = moves[-1]
        arrived = (self.arrived(name, slot, since, stamp) for name, number in self._arrived if number == slot)
        return target if all(each is None for each in arrived) else node

    def holders(self, node: str, slot: int, since: int) -> Iterator[tuple[str, int, int]]:
        """Returns who had a slot since a stamp, when `node` had it, from when on and until when."""
        later = sorted(
            (stamp, name)
            for (name, number), there in self._arrived.items()
            if number == slot
            for stamp in there
            if stamp > since
        )
        for (begin, name), (end, _) in pairwise([(since, node), *later, (NEVER, "")]):
            yield name, begin, end

    def was_moved(self, node: str, slot: int, since: int, until: int) -> bool:
        """Whether a node said between two stamps that it has moved a slot, with all its changes."""
        left, taken = (each.get((node, slot), ()) for each in (self.left, self.taken))
        return any(since < stamp < until and stamp not in taken for stamp in left)

    def was_taken(self, node: str, slot: int, since: int, until: int) -> bool:
        """Whether a node learned between two stamps that another one had taken the slot over."""
        return self.taken_after(node, slot, since) < until

    def taken_after(self, node: str, slot: int, since: int) -> int:
        """Returns the first stamp after `since` at which a node learned that another one had taken the slot over;
        `NEVER` if there is none."""
        return next((stamp for stamp in self.taken.get((node, slot), ()) if since < stamp), NEVER)

    def _doubt(self, row: Row) -> None:
        key = row["target"], row.get("view") or 0
        if key not in self._known:
            self._known.add(key)
            for slot in slots_of(row["slots"]):
                self._doubtful.setdefault(slot, []).append(row["hlc"])

    def doubtful_after(self, slot: int, since: int) -> int:
        """Returns the first stamp after `since` at which a slot got a primary that may lack acknowledged changes;
        `NEVER` if the log has none."""
        return next((stamp for stamp in self._doubtful.get(slot, ()) if stamp > since), NEVER)

"""The node clock: the writes of each actor that this node has seen, even if their values were replaced since.

It has a set of intervals of counters for each actor (`intervals.py`), usually "all up to n". The clock is the
causal context of every key at once: a dot that is in the clock and not among the siblings of its key has been
overwritten.

Actors are boots, so the clock would grow with every restart. Therefore early boots are *folded*: `folded[node] = boot`
stands for "everything of this boot and all before it". An early boot makes no new dots. It may be folded once every
member has reported that it knows a later boot (so it takes no more messages of the early one) and has seen exactly the
same dots of the early one as this node. `foldable` decides, oldest boot first. Until all members have folded it too,
`final` keeps its counters, to distinguish a member that has not folded yet from one that lacks dots. A member that has
not folded a boot of which they are forgotten has to be compared key by key.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from . import intervals
from .actors import COUNTER, SHIFT, Actors
from .intervals import Intervals


class VersionVector:
    """A set of dots, by actor. Implements `dvv.Context`."""

    __slots__ = ("actors", "final", "folded", "forgotten", "seen")

    def __init__(self, actors: Actors) -> None:
        self.actors = actors
        self.seen: dict[int, Intervals] = {}
        self.folded: dict[str, int] = {}
        self.final: dict[int, Intervals] = {}
        self.forgotten: dict[str, int] = {}
        """Node -> its last folded boot whose counters this node has forgotten or never knew. `final` has those of the
        later ones."""

    def covers(self, dot: int) -> bool:
        """Whether a dot has been seen."""
        seen = self.seen.get(dot >> SHIFT)
        if seen is None:
            return bool(self.folded) and self.is_folded(dot >> SHIFT)
        counter = dot & COUNTER
        if len(seen) == 2:
            return seen[0] < counter <= seen[1]
        return intervals.has(seen, counter)

    def is_folded(self, actor: int) -> bool:
        """Whether an actor is a folded boot."""
        node, boot = self.actors.names[actor]
        return boot <= self.folded.get(node, 0)

    def base(self, actor: int) -> int:
        """Returns the counter up to which no dot of an actor is missing; 0 for an unknown actor."""
        return intervals.base(self.seen.get(actor, []))

    def add(self, actor: int, low: int, high: int) -> bool:
        """Add low < counter <= high of an actor; an empty span makes the actor known. Returns whether anything
        changed."""
        if self.is_folded(actor):
            return False
        seen = self.seen.get(actor)
        if seen is None:
            self.seen[actor] = [low, high] if low < high else []
            return True
        if low >= high or (len(seen) == 2 and seen[0] <= low and high <= seen[1]):
            return False
        if len(seen) > 2 and not intervals.minus([low, high], seen):
            return False
        intervals.add(seen, low, high)
        return True

    def fold(self, node: str, boot: int, by_peer: bool = False) -> list[int]:
        """Fold this boot of a node and all before it. Returns the actors that were removed from the clock.

        `by_peer`: a peer has folded the boot; this node does not know how many dots the boot made.
        """
        if boot <= self.folded.get(node, 0):
            return []
        gone = [actor for actor in self.seen if self._is_of(actor, node, boot)]
        for actor in gone:
            self.final[actor] = self.seen.pop(actor)
        if by_peer:
            self._forget(node, boot)
        self.folded[node] = boot
        return gone

    def restore_folded(self, node: str, boot: int) -> None:
        """Read from the disk that a boot is folded. The counters of folded boots are not on the disk."""
        self.folded[node] = self.forgotten[node] = boot

    def _forget(self, node: str, boot: int) -> None:
        """Remove the counters of this folded boot and all before it."""
        self.final = {actor: seen for actor, seen in self.final.items() if not self._is_of(actor, node, boot)}
        self.forgotten[node] = boot

    def _is_of(self, actor: int, node: str, boot: int) -> bool:
        name, number = self.actors.names[actor]
        return name == node and number <= boot

    def join(self, other: VersionVector) -> None:
        """Add everything that another clock has seen."""
        for actor, seen in other.seen.items():
            self.add(actor, 0, 0)
            for low, high in intervals.pairs(seen):
                self.add(actor, low, high)
        for node, boot in other.folded.items():
            self.fold(node, boot)

    def copy(self) -> VersionVector:
        """Returns a copy of this clock."""
        twin = VersionVector(self.actors)
        twin.seen = {actor: list(seen) for actor, seen in self.seen.items()}
        twin.folded = dict(self.folded)
        return twin

    def digest(self) -> str:
        """Returns 16 hexadecimal digits that are equal for equal clocks, on every node."""
        seen = sorted((*self.actors.names[actor], *spans) for actor, spans in self.seen.items() if spans)
        return blake2b(repr((seen, sorted(self.folded.items()))).encode(), digest_size=8).hexdigest()

    def lacks(self, other: VersionVector) -> list[tuple[int, int, int]]:
        """Returns the spans that the other clock has and this one lacks, as (actor, low, high).

        For an actor that this clock does not know, there is also (actor, 0, 0).
        """
        missing = []
        for actor, seen in other.seen.items():
            if self.is_folded(actor):
                continue
            mine = self.seen.get(actor)
            if mine is None:
                missing.append((actor, 0, 0))
            missing += [(actor, low, high) for low, high in intervals.minus(seen, mine or [])]
        return missing

    def differs_in_folded(self, other: VersionVector) -> bool:
        """Whether this clock may have seen fewer or more dots of a boot that the other clock has folded.

        Then every key has to be compared. In the volatile half the nodes of a view fold without the nodes that are
        away: dots that only an absent node has seen then count as seen and replaced.
        """
        for node, boot in other.folded.items():
            mine = self.folded.get(node, 0)
            if mine >= boot:
                continue
            if mine < other.forgotten.get(node, 0):
                return True
            late = [actor for actor in other.final if other._is_of(actor, node, boot) and not self.is_folded(actor)]
            if any(other.final[actor] != self.seen.get(actor, []) for actor in late):
                return True
        return False

    def dominates(self, other: VersionVector) -> bool:
        """Whether this clock has everything that the other one has."""
        return not self.lacks(other) and all(self.folded.get(n, 0) >= boot for n, boot in other.folded.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VersionVector) and self.seen == other.seen and self.folded == other.folded

    def __hash__(self) -> int:
        return id(self)

    def foldable(self, others: Iterable[VersionVector]) -> list[tuple[str, int]]:
        """Returns the (node, boot) that may be folded now, oldest boots first, from the last clock of every member."""
        others = list(others)
        nodes: dict[str, list[tuple[int, int]]] = {}
        for actor in self.seen:
            node, boot = self.actors.names[actor]
            nodes.setdefault(node, []).append((boot, actor))
        found = []
        for node, boots in sorted(nodes.items()):
            for boot, actor in sorted(boots)[:-1]:
                if not all(other._agrees(node, boot, actor, self) for other in others):
                    break
                found.append((node, boot))
        return found

    def _agrees(self, node: str, boot: int, actor: int, asking: VersionVector) -> bool:
        """Whether this clock, of a member, allows folding a boot: it knows a later boot and has seen the same dots.

        A member that has folded more boots may have seen dots of them that the asking node lacks. Its report has no
        `final`, so only an exchange can show that.
        """
        if self.folded.get(node, 0) > asking.folded.get(node, 0):
            return False
        mine = [(self.actors.names[number][1], number) for number in self.seen if self.actors.names[number][0] == node]
        early = [number for number_boot, number in mine if number_boot <= boot]
        same = all(self.seen[each] == asking.seen.get(each, asking.final.get(each)) for each in early)
        return same and actor in early and len(mine) > len(early)

    def forget_final(self, others: Iterable[VersionVector]) -> None:
        """Forget the counters of the boots that every member has folded."""
        if self.final:
            others = list(others)
            for node in {self.actors.names[actor][0] for actor in self.final}:
                everywhere = min(other.folded.get(node, 0) for other in (self, *others))
                if everywhere > self.forgotten.get(node, 0):
                    self._forget(node, everywhere)

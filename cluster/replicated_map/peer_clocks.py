"""What the other nodes have said they have: how far the log can be trimmed, and which boots can be folded.

For the durable half all members count, and what counts is what they have on their disks, so that a restart never lacks
what others have forgotten. For the volatile half the nodes of the applied view count: one that was away is led through
all keys when it comes back (`delta_sender.py`), so an absent member never makes routes pile up (P8).
"""

from __future__ import annotations

from collections.abc import Iterable

from .actors import Actors
from .messages import Part, clock_of
from .version_vector import VersionVector


class PeerClocks:
    """The last clocks of each node, by the highest boot that was heard of it."""

    def __init__(self, actors: Actors) -> None:
        self._actors = actors
        self._clocks: dict[str, tuple[int, dict[int, VersionVector]]] = {}

    def boot(self, node: str) -> int:
        """The highest boot that a node has spoken from; 0 for none."""
        return self._clocks.get(node, (0, {}))[0]

    def heard(self, node: str, boot: int) -> bool:
        """A message of this boot has come. False when a later one is known, by whomever: it is to be ignored, for the
        others rely on who has said that it knows of one (`version_vector.py`).
        """
        self._actors.number(node, boot)
        if boot > self.boot(node):
            self._clocks[node] = (boot, {})
        return boot == self._actors.latest[node]

    def reported(self, node: str, parts: Iterable[Part]) -> None:
        """A node's clocks, of the boot just heard. Reports may overtake each other: they are joined."""
        clocks = self._clocks[node][1]
        for part in parts:
            clock = clock_of(part, self._actors)
            before = clocks.get(part.half)
            if before is not None:
                clock.join(before)
            clocks[part.half] = clock

    def of(self, nodes: Iterable[str], half: int) -> list[VersionVector]:
        """The clocks of these nodes; one that has said nothing yet has an empty one."""
        nothing = VersionVector(self._actors)
        return [self._clocks.get(node, (0, {}))[1].get(half, nothing) for node in nodes]

    def counter(self, node: str, actor: int) -> int:
        """The counter up to which a node has said it has an actor's writes, of both halves."""
        return min(clock.base(actor) for half in (0, 1) for clock in self.of([node], half))

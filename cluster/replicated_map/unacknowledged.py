"""Writes that this node never acknowledged, because it was cut off or killed: they give way (H-16).

A node that serves has each write that was acknowledged. So this node never acknowledged a write that such a peer lacks
when this node enters a view. Nor has it acknowledged one that a peer lacked when this node lost its lease, although the
streams may bring it before this node enters. Its client may have sent it again at another node, and may have had later
writes acknowledged there. For the map both are concurrent, and the earlier one might win. Therefore this node writes
the value of the others again, which replaces both. Until then a serving peer gets none of its writes by exchanges.
"""

from __future__ import annotations

from collections.abc import Callable

from . import dvv
from .actors import COUNTER, Actors, dot_of
from .dvv import Siblings
from .replica import Replica
from .version_vector import VersionVector


class Unacknowledged:
    """The writes of one node that a serving peer lacked.

    `counts` says which keys may give way. `replace(key, others)` replaces a write of this node by those of others.
    `when` is as in `ReplicatedMap.let_give_way`.
    """

    def __init__(
        self,
        node: str,
        replica: Replica,
        actors: Actors,
        counts: Callable[[bytes], bool],
        replace: Callable[[bytes, Siblings], None],
    ) -> None:
        self._node = node
        self._replica = replica
        self._actors = actors
        self._counts = counts
        self._replace = replace
        self.when: Callable[[str], bool] = lambda peer: False
        self._dots: dict[int, bytes] = {}

    def compared(self, peer: str, theirs: VersionVector, learned: bool) -> None:
        """Note which writes of this node a peer lacks; `theirs` is the peer's clock.

        With `learned` this node is entering a view and has all that the peer had: then those writes give way.
        """
        if self.when(peer):
            self._note(theirs)
            if learned:
                for key, others in self.give_way():
                    self._replace(key, others)

    def _note(self, theirs: VersionVector) -> None:
        for actor, low, high in theirs.lacks(self._replica.clock):
            if self._actors.names[actor][0] == self._node:
                self.note_range(actor, low, high)

    def note_range(self, actor: int, low: int, high: int) -> None:
        """A peer lacks these writes of this node."""
        for counter, key in self._replica.log.between(actor, low, high, COUNTER):
            if self._counts(key):
                self._dots[dot_of(actor, counter)] = key

    def all_give_way(self, peer: str, siblings: Siblings) -> bool:
        """Whether all these values are writes of this node that will give way before the peer gets them."""
        return self.when(peer) and all(
            dot in self._dots or self._is_of_former_boot(dot) for dot, value in dvv.pairs(siblings) if value is not None
        )

    def _is_of_former_boot(self, dot: int) -> bool:
        node, boot = self._actors.writer(dot)
        return node == self._node and boot < self._actors.latest[node]

    def clear(self) -> None:
        """This node has a lease: it acknowledges its writes as soon as all peers have them."""
        self._dots.clear()

    def give_way(self) -> list[tuple[bytes, Siblings]]:
        """Returns the keys with concurrent writes of other nodes, and these writes."""
        found = []
        for key in dict.fromkeys(self._dots.values()):
            siblings = self._replica.siblings(key)
            others = [each for each in dvv.pairs(siblings) if each[0] not in self._dots]
            if others and 2 * len(others) < len(siblings):
                found.append((key, tuple(part for each in others for part in each)))
        return found

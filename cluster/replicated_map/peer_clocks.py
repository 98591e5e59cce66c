"""The reported clocks of other nodes: they limit how far the log is trimmed and which boots are folded.

For the durable half all members count, with the clocks that are on their disks: a restarted member never lacks dots
that the others have removed. For the volatile half only the nodes of the applied view count, so routes do not pile up
while a member is absent (P8). When it comes back, it is compared key by key (`delta_sender.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from .actors import Actors
from .messages import Part, clock_of
from .version_vector import VersionVector


class PeerClocks:
    """The last clocks of each node, from its highest known boot."""

    def __init__(self, actors: Actors) -> None:
        self._actors = actors
        self._clocks: dict[str, tuple[int, dict[int, VersionVector]]] = {}

    def boot(self, node: str) -> int:
        """Returns the highest known boot of a node; 0 for none."""
        return self._clocks.get(node, (0, {}))[0]

    def heard(self, node: str, boot: int) -> bool:
        """A message of this boot has come. Returns False if a later boot of the node is known to any peer.

        The message must then be ignored: other nodes may already have folded that boot (`version_vector.py`).
        """
        self._actors.number(node, boot)
        if boot > self.boot(node):
            self._clocks[node] = (boot, {})
        return boot == self._actors.latest[node]

    def reported(self, node: str, parts: Iterable[Part]) -> None:
        """A node has reported the clocks of its last boot. Reports may overtake each other, so join them."""
        clocks = self._clocks[node][1]
        for part in parts:
            clock = clock_of(part, self._actors)
            before = clocks.get(part.half)
            if before is not None:
                clock.join(before)
            clocks[part.half] = clock

    def of(self, nodes: Iterable[str], half: int) -> list[VersionVector]:
        """Returns the clocks of these nodes; a node without a report has an empty one."""
        nothing = VersionVector(self._actors)
        return [self._clocks.get(node, (0, {}))[1].get(half, nothing) for node in nodes]

    def counter(self, node: str, actor: int) -> int:
        """Returns the counter up to which a node has reported an actor's writes, in both halves."""
        return min(clock.base(actor) for half in (0, 1) for clock in self.of([node], half))

"""A client can connect while its gateway and the primary of its slot serve (H-23).

A CONNECT must get an answer, or its connection an end, after three detection times, and the commits that it may wait
for, in which these conditions hold: all nodes that serve are in one view and a majority, the gateway and the node with
the session are among them (also if it is one that a Clean Start ends), their disks are well, and no fault slows the
network down or loses half of its packets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .unanswered import PATIENCE_S

COMMITS = 8
"""How many commits to disks, one after another, a CONNECT waits for at most. If its slot is being handed over, they are
the last rows of the slot, an entry of the cluster's log that has begun, the entry of this slot, and the new session;
each of them at a node, and then at another one."""


class Connects:
    """Adds up the time that each CONNECT has waited without a good reason."""

    def __init__(self) -> None:
        self._waited: dict[tuple[str, int], float] = {}

    def judge(self, passed_s: float, waiting: Iterable[tuple[str, int]], commit_s: float) -> Iterator[str]:
        """Yield each CONNECT that has waited too long. `passed_s`: the time since the last call. `waiting`: client and
        number of the connection, of those that have no good reason to wait now. `commit_s`: what a commit takes at
        most."""
        waited = {}
        for client, number in waiting:
            waited[client, number] = total = self._waited.get((client, number), 0.0) + passed_s
            if total > PATIENCE_S + COMMITS * commit_s:
                yield f"unavailable: connection {number} of {client} has no CONNACK, though its nodes serve"
        self._waited = waited

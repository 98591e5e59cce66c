"""A new leader learns cluster time before it grants leases, because each lease tells that time to a node (H-17).

A member that has just joined, or whose machine was booted, waits for the leader's cluster time. It may be elected in
the meantime. Then all nodes follow it, and its own wall clock may be a year off. So it grants no lease until it has
learned cluster time in one of two ways:

- A node that knows cluster time says it in its lease requests. The leader takes the first one.
- Every member that the leader hears has said that it does not know cluster time, either; the others are silent
  (`MembershipCoordinator.silent`). Then nobody knows it, and the leader takes its wall clock.
"""

from __future__ import annotations

from collections.abc import Callable

from .consensus import Consensus
from .messages import LeaseRequest


class LeaderTime:
    """The cluster time of one process, which may lead.

    `known` says whether the process knows cluster time. `cluster_ms` returns it. `follow` sets it, as in `ports.Ports`.
    """

    def __init__(
        self,
        node: str,
        consensus: Consensus,
        cluster_ms: Callable[[], int],
        known: Callable[[], bool],
        follow: Callable[[float | None], None],
    ) -> None:
        self._node = node
        self._consensus = consensus
        self._cluster_ms = cluster_ms
        self._follow = follow
        self._ignorant: set[str] = set()
        self.known = known

    def known_ms(self) -> int | None:
        """Cluster time, None if it is not known."""
        return self._cluster_ms() if self.known() else None

    def elected(self) -> None:
        """This node leads from now on."""
        self._ignorant.clear()
        if self.known():
            self._follow(None)

    def learn(self, offset_ms: float) -> None:
        """Another node says cluster time: it is `offset_ms` ahead of the monotonic clock. If this node leads by now, it
        follows its own wall clock from there on, as every leader."""
        self._follow(offset_ms)
        if self._consensus.leads:
            self._follow(None)

    def heard(self, request: LeaseRequest, now_ms: float) -> bool:
        """A node asks this leader for a lease. Returns True if the leader has learned cluster time from it.

        A leader that knows the time learns it anew if its machine stood still (`ClusterClock.follow`).
        """
        if request.cluster_ms is None:
            self._ignorant.add(request.node)
            return False
        knew = self.known()
        self.learn(request.cluster_ms - now_ms)
        return not knew

    def settle(self, silent: Callable[[str], bool]) -> bool:
        """Take the wall clock if no member knows cluster time. Returns True if the leader has done so now."""
        consensus = self._consensus
        if self.known() or not consensus.leads or not consensus.raft.up_to_date:
            return False  # before that, members may be missing
        rows = consensus.membership.members.values()
        others = [row.node for row in rows if row.node != self._node and not row.stale]
        if not all(node in self._ignorant or silent(node) for node in others):
            return False
        self._follow(None)
        return True

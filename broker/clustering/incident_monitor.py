"""Reports netsplits: gives the facts of links, views and leases to the partition monitor, once per heartbeat (P10)."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING

from ...cluster.node import ClusterNode
from ...netsplit.incidents import IncidentLog
from ...netsplit.partition_monitor import PartitionMonitor
from ...netsplit.suspicion import SuspicionTracker

if TYPE_CHECKING:
    from ..node import Node

HEARTBEAT_MS = 250


class IncidentMonitor:
    """Watches for netsplits at one node. Call `changed` after each change of view or lease; the first call begins."""

    def __init__(self, node: Node, member: ClusterNode) -> None:
        self._node = node
        self._member = member
        now = node.env.clock.now_ms()
        self.incident_log = IncidentLog(node.name, lambda kind, fields: node.env.event(kind, **fields), now)
        self.partition_monitor = PartitionMonitor(SuspicionTracker(), self.incident_log, self._totals)
        self._running = False
        self._looked_ms = -inf

    def begin(self) -> None:
        """Watch from now on."""
        if not self._running:
            self._running = True
            self.tick()

    def tick(self) -> None:
        """Check which peers were heard since the last check. Call it in each tick: it acts once in each heartbeat."""
        node, member = self._node, self._member
        mono = member.ports.now_ms()
        if not self._running or node.closing or member.closed or mono - self._looked_ms < HEARTBEAT_MS * 0.9:
            return
        now = node.env.clock.now_ms()
        peers = tuple([name for name in self._expected() if name != node.name])
        suspicions = self.partition_monitor.suspicions
        suspicions.watch(peers, now)
        for name in peers:
            heard = member.links.heard_ms(name)
            if heard is not None and heard >= self._looked_ms:
                suspicions.heard(name, int(now - (mono - heard)))
        self._looked_ms = mono
        self.partition_monitor.tick(now)

    def _expected(self) -> list[str]:
        """Return the members that should be in the view. A node that joins counts after it has served once."""
        return [row.node for row in self._member.membership.members.values() if row.served]

    def changed(self) -> None:
        """Report the present view and lease, after a change of either."""
        member = self._member
        if not member.clustered:
            return
        self.begin()  # a founder always has its lease and sees all members: only a view change starts its monitor
        now = self._node.env.clock.now_ms()
        serving = member.view.serving
        missing = tuple(sorted([name for name in self._expected() if name not in serving and name != self._node.name]))
        leased = member.leased()
        self.partition_monitor.view(missing, member.view.id, leased, now)
        if leased and not missing:
            self.partition_monitor.healed(now)

    def count(self, outcome: str, operations: Mapping[str, int]) -> None:
        """Count operations with this outcome, by name. Has no effect outside an incident."""
        for operation, number in operations.items():
            self.incident_log.count(operation, outcome, number)

    def _totals(self) -> Mapping[tuple[str, str], int]:
        """The node's counters, by operation and outcome."""
        counters = self._node.env.counters
        refused, parked = sum(counters.publish_error), counters.publish_parked
        not_accepted = sum(counters.publish_auth_error) + refused + parked - counters.publish_unparked
        not_subscribed = sum(counters.subscribe_auth_error) + sum(counters.subscribe_error)
        return {
            ("publish", "accepted"): sum(counters.publish_received) - not_accepted,
            ("publish", "refused"): refused,
            ("publish", "parked"): parked,
            ("subscribe", "accepted"): sum(counters.subscribe_received) - not_subscribed,
            ("subscribe", "refused"): sum(counters.subscribe_error),
            ("unsubscribe", "accepted"): sum(counters.unsubscribe_received) - sum(counters.unsubscribe_error),
            ("unsubscribe", "refused"): sum(counters.unsubscribe_error),
            ("register", "accepted"): counters.accepted_connects,
            ("register", "refused"): counters.connect_error,
        }

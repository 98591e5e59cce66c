"""Reports the nodes whose disk is slow, this one included, and what becomes of their copies; and those that take none.

The nodes themselves say it in their lease requests (`cluster/membership/commit_pace.py`), and primaries choose other
nodes for the copies (`cluster/slots/replicas.py`). This module carries the setting `queue_follower_patience` to the
former, and tells operators.
"""

from __future__ import annotations

from ...cluster.membership.commit_pace import HOLD_MS
from ...cluster.node import ClusterNode
from ...cluster.slots.table import ranges
from ..node import Node
from .slot_replicator import SlotReplicator

MINUTES = HOLD_MS // 60_000


class SlowDisks:
    """The slow disks that one node knows of."""

    def __init__(self, node: Node, member: ClusterNode, replicator: SlotReplicator) -> None:
        self._node = node
        self._member = member
        self._replicator = replicator
        self._reported: frozenset[str] = frozenset()
        self._full: frozenset[str] = frozenset()

    def tick(self) -> None:
        """The setting may have changed, and another disk may be slow or full: call it often."""
        self._report_full()
        member, env = self._member, self._node.env
        if member.lease_service is not None:
            member.lease_service.pace.patience_ms = self._node.options.queue_follower_patience_ms
        slow, former = member.slow, self._reported
        if slow.keys() == former:
            return
        self._reported = frozenset(slow)
        for name in sorted(slow.keys() - former):
            env.event("mem.slow", target=name, state="slow", detail=f"{slow[name]} ms", view=member.view.id)
            env.log(
                "warning", self._of_this_node(slow[name]) if name == self._node.name else self._of(name, slow[name])
            )
        for name in sorted(former.intersection(member.view.nodes) - slow.keys()):
            env.event("mem.slow", target=name, state="quick", view=member.view.id)
            env.log("notice", f"the disk of {name} has not been slow for {MINUTES} minutes: it gets copies again")

    def _report_full(self) -> None:
        """A node says itself that its own disk is full."""
        full, former, log = frozenset(self._member.full) - {self._node.name}, self._full, self._node.env.log
        self._full = full
        for name in sorted(full - former):
            log("warning", f"{name} takes no copies of slots: its disk is full, or it leaves the cluster")
        for name in sorted(former.intersection(self._member.view.nodes) - full):
            log("notice", f"{name} takes copies of slots again")

    def _of_this_node(self, took_ms: int) -> str:
        patience_ms = self._node.options.queue_follower_patience_ms
        return (
            f"the disk of this node is slow: a commit takes {took_ms} ms, queue_follower_patience is {patience_ms}. "
            "Clients of other nodes wait for it, so these nodes make their copies elsewhere if they can, until it has "
            f"not been slow for {MINUTES} minutes. Find out what keeps the disk busy, or the process from running"
        )

    def _of(self, name: str, took_ms: int) -> str:
        copies = self._replicator.copies
        held = [slot for slot in copies if any(copy.holder.node == name and copy.counts for copy in copies[slot])]
        moved = sorted(self._replicator.lacking().keys() & set(held))
        stay = sorted(set(held) - set(moved))
        text = f"the disk of {name} is slow: a commit takes {took_ms} ms there"
        if moved:
            text += f". Its copies of the slots {' '.join(ranges(moved))} of this node go to other nodes"
        if stay:
            text += (
                f". Its copies of the slots {' '.join(ranges(stay))} of this node stay, for no other node can have them"
            )
        return f"{text}. Find out what keeps its disk busy, or its process from running"

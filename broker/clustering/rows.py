"""The cluster as operators see it from one node: rows and figures of its cluster node."""

from __future__ import annotations

from ...cluster.membership.state_machine import zone_of
from ...cluster.node import ClusterNode
from ...cluster.slots.table import SlotTable, ranges, standalone_table
from .cluster_slots import ClusterSlots
from .operator_port import NodeRow, Sees, StatusRow

RUNS_MS = 1000
"""A node that was heard within this time counts as running."""


def node_rows(member: ClusterNode, serves_nobody: str = "") -> list[NodeRow]:
    """Return a row for each member, this node included. A standalone node returns its own row. A node that serves
    nobody may have an old view, in which it still serves."""
    mine = member.me.node
    consensus = member.consensus
    if consensus is None:
        return [_alone(mine, member.me.address, bool(serves_nobody))]
    voters = consensus.raft.configuration.voters
    now = member.ports.now_ms()
    rows = []
    for name, row in sorted(member.membership.members.items()):
        seen = member.view.row(name)
        if name == mine and (member.incarnation is None or serves_nobody):
            seen = None  # an earlier start of this node, or one that was taken out
        heard = member.links.heard_ms(name)
        runs = name == mine or (member.links.up(name) and heard is not None and now - heard < RUNS_MS)
        rows.append(
            NodeRow(
                node=name,
                running=runs,
                state="absent" if seen is None else "silent" if not runs else "serving" if seen.serving else "joining",
                incarnation="" if seen is None else f"boot {seen.boot} since view {seen.entered_in_view}",
                address=row.address,
                heard_ms=None if name == mine or heard is None else int(now - heard),
                voter=f"{name}/{row.disk}" in voters,
                stale=row.stale,
                waiting_bytes=member.links.memory_bytes(name),
            )
        )
    return rows


def status_row(
    member: ClusterNode,
    sees: Sees,
    incidents: int,
    serves_nobody: str = "",
    slots: ClusterSlots | None = None,
    accepts_alone: bool = True,
) -> StatusRow:
    """The cluster as it is now; `incidents` is how many this node has seen, `accepts_alone` whether it accepts clients
    without a lease."""
    serving = [row for row in node_rows(member, serves_nobody) if row.state == "serving"]
    figures = member.metadata.statistics()
    consensus, lease_service = member.consensus, member.lease_service
    return StatusRow(
        cluster_id=member.me.cluster_id,
        view_id=member.view.id,
        sees=sees,
        leader=member.me.node if consensus is None else consensus.leader,
        lease_ms_left=0 if lease_service is None else int(lease_service.left_ms()),
        members=len(member.membership.members) or 1,
        # a node without a lease hears only nodes that have none either
        serving=len(serving) if accepts_alone or sees != "minority" else 0,
        metadata_keys=figures.keys,
        tombstones=figures.tombstones,
        incidents=incidents,
        log_disk=member.ports.meta.state,
        serves_nobody=serves_nobody,
        no_lease="" if serves_nobody else member.reporting.because,
        slots_misplaced=len(slots.handover.misplaced()) if slots is not None else 0,
        balance=slots.balance.state if slots is not None and member.clustered and not serves_nobody else "",
        copies_due=slots.check.due if slots is not None else 0,
        slow_disks=tuple([f"{name} ({took_ms} ms)" for name, took_ms in member.slow.items()]),
    )


def lacking_without(member: ClusterNode, slots: ClusterSlots) -> str:
    """What the other nodes lack if this one stops, although slots have copies; "" if they lack nothing, or if waiting
    does not help: no other node serves, or this one is in a minority."""
    mine, consensus = member.me.node, member.consensus
    if consensus is None or not slots.have_copies or not set(member.view.serving) - {mine}:
        return ""
    voters = consensus.raft.configuration.voters
    rows = node_rows(member)
    if not member.leased() and 2 * sum(row.voter for row in rows if row.running) <= len(voters):
        return ""
    if alone := slots.alone():
        return f"no other node has a copy of the slots {' '.join(ranges(alone))}"
    others = [row for row in rows if row.node != mine]
    away = [row.node for row in others if row.state != "serving"]  # one that has just died may be in the view still
    if away and 2 * sum(row.voter for row in others if row.state == "serving") <= len(voters):
        names = f"{' and '.join(away)} {'are' if away[1:] else 'is'}"
        return f"the others are no majority without this node, while {names} away"
    return ""


def slots_and_zones(member: ClusterNode) -> tuple[SlotTable, dict[str, str]]:
    """The slot table as applied here, and node -> zone of all members. A standalone node has all slots."""
    me = member.me
    if not member.clustered:
        return standalone_table(me.node, me.disk), {me.node: member.settings.zone or me.node}
    return member.slots, {name: zone_of(row) for name, row in sorted(member.membership.members.items())}


def _alone(name: str, address: str, waits: bool) -> NodeRow:
    return NodeRow(
        node=name,
        running=True,
        state="absent" if waits else "serving",
        incarnation="",
        address=address,
        heard_ms=None,
        voter=True,
        stale=False,
        waiting_bytes=0,
    )

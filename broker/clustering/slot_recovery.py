"""`slot recover`: the slots without primary, and the request of an operator to give them to other nodes.

The log decides about each request (`cluster/slots/recovery.py`). A request may be lost, or be made for a row that has
changed. So it is made anew and repeated until the table that this node has applied has a primary for each slot.
"""

from __future__ import annotations

from ...cluster.identity import SLOTS
from ...cluster.node import ClusterNode
from ...cluster.slots.recovery import back, orphans, requests
from ...cluster.slots.table import SlotRow, ranges
from .asking import until
from .operator_port import ClusterError, LastHolder, Orphan
from .routes import LASTING

RECOVER_S = 10.0
"""How long an operator's request may take."""
REPEAT_S = 1.0


def orphan_rows(member: ClusterNode) -> list[Orphan]:
    """Return the slots without primary, by the table that this node has applied."""
    rows = orphans(member.slots)
    filters = [0] * SLOTS
    if rows:
        for key, _ in member.metadata.scan(LASTING):
            filters[key[1]] += 1
    return [Orphan(row.slot, _holders(member, row), filters[row.slot]) for row in rows]


def _holders(member: ClusterNode, row: SlotRow) -> tuple[LastHolder, ...]:
    here = [holder.node for holder in back(row.in_sync, member.membership.holders())]
    found = []
    for holder in row.in_sync:
        known = member.membership.members.get(holder.node)
        since_ms = known.away_ms if known is not None else 0
        away_s = max(0, member.ports.cluster_ms() - since_ms) // 1000 if since_ms else None
        complete = holder.node not in row.incomplete
        found.append(LastHolder(holder.node, holder.disk, holder.node in here, away_s, complete))
    return tuple(found)


async def recover(member: ClusterNode, slots: list[int]) -> dict[int, tuple[str, bool]]:
    """As `OperatorPort.recover_slots`."""
    if not member.leased():
        raise ClusterError(
            f"{member.me.node} has no lease, so it does not know whether these slots have a primary. A majority of the "
            "members that vote must be reachable"
        )
    wanted = {row.slot for row in orphans(member.slots)}.intersection(slots)
    older: dict[int, set[str]] = {}
    rounds = int(RECOVER_S / REPEAT_S)
    for _ in range(rounds):
        rows = [row for row in orphans(member.slots) if row.slot in wanted]
        if not rows:
            break
        present, serving = member.membership.holders(), member.view.serving
        for row in rows:
            older[row.slot] = {holder.node for holder in back(row.in_sync, present)}
        changes = requests(rows, present, serving, member.full)
        if not changes:
            raise ClusterError(f"no node serves that could get the slots {' '.join(ranges(wanted))}")
        member.recover_slots(tuple(changes))
        try:
            await until(lambda: all(row.slot not in wanted for row in orphans(member.slots)), REPEAT_S, "")
        except ClusterError:
            continue
    left = {row.slot for row in orphans(member.slots)} & wanted
    if left:
        raise ClusterError(
            f"the slots {' '.join(ranges(left))} still have no primary after {RECOVER_S:.0f} s: repeat the command"
        )
    return {slot: _got(member, slot, older.get(slot, set())) for slot in sorted(wanted)}


def _got(member: ClusterNode, slot: int, older: set[str]) -> tuple[str, bool]:
    primary = member.slots.row(slot).primary
    node = "" if primary is None else primary.node
    return node, node in older

"""`slot`: the slot table as this node has applied it, the move of a slot with its sessions, and the recovery of slots
whose last holders do not come back."""

from __future__ import annotations

from collections.abc import Mapping

from ...broker.clustering.operator_port import ClusterError, LastHolder, Orphan
from ...cluster.identity import SLOTS
from ...cluster.slots.handover import first_wanted
from ...cluster.slots.table import Holder, SlotRow, ranges
from ..context import Context
from ..fan_out import LocalHandler, NodeResult, run_on, run_on_all_nodes
from ..grammar import Argument, Call, Command, Flag
from ..result import DONE, Cell, CommandError, Part, Table, Text
from ..status import slot_table
from .cluster import LONGEST_S, require_cluster, seconds


def slot_number(text: str) -> int:
    """Parse the number of a slot. The ValueError says what is expected."""
    if not text.isascii() or not text.isdigit() or len(text) > 3 or int(text) >= SLOTS:
        raise ValueError(f"a slot, 0 to {SLOTS - 1}")
    return int(text)


async def _show(context: Context, call: Call) -> list[Part]:
    table, zones = slot_table(context)
    if "slot" in call.arguments:
        return [_one(table.row(call.arguments["slot"]), zones)]
    groups: dict[tuple[str, str], list[int]] = {}
    for row in table.rows:
        groups.setdefault(_owner(row), []).append(row.slot)
    idle = set(zones) - {node for node, _ in groups}
    groups.update({(node, "none"): [] for node in idle})
    rows: list[tuple[Cell, ...]] = [
        (nodes or None, zones.get(nodes), len(slots), " ".join(ranges(slots)) or None, state)
        for (nodes, state), slots in sorted(groups.items())
    ]
    return [Table(("Node", "Zone", "Count", "Slots", "State"), rows)]


def _owner(row: SlotRow) -> tuple[str, str]:
    """The node, or nodes, of a slot and its state: `primary`, `away` (all holders are away) or `empty` (no copy)."""
    if row.primary is not None:
        return row.primary.node, "primary"
    return " ".join(holder.node for holder in row.in_sync), "away" if row.in_sync else "empty"


def _one(row: SlotRow, zones: Mapping[str, str]) -> Table:
    nodes, state = _owner(row)
    held = ", ".join([_held(row, holder) for holder in row.in_sync]) or None
    deputy = row.deputy.node if row.deputy is not None else None
    columns = ("Slot", "Node", "Zone", "State", "Epoch", "Version", "In sync", "Deputy")
    return Table(columns, [(row.slot, nodes or None, zones.get(nodes), state, row.epoch, row.version, held, deputy)])


def _held(row: SlotRow, holder: Holder) -> str:
    if holder.node in row.incomplete:
        return f"{holder.node} may lack changes"
    return f"{holder.node} since view {holder.entered_in_view}" if holder.entered_in_view else f"{holder.node} away"


async def _check_here(context: Context, call: Call) -> NodeResult:
    """Begin the comparisons of this node; the row has their number."""
    cluster = context.cluster
    slots = [call.arguments["slot"]] if "slot" in call.arguments else list(range(SLOTS))
    return NodeResult([(cluster.check_copies(slots) if cluster is not None else 0,)])


async def _check(context: Context, call: Call) -> list[Part]:
    require_cluster(context)
    total = await run_on_all_nodes(context, "slot check", _check_here, call)
    counts = [row[0] for result in total.results for row in result.rows]
    begun = sum([count for count in counts if isinstance(count, int)])
    text = f"{DONE.text}: the copies of {begun} slots are compared now, see slots_check_due and the logs"
    return [Text(text), *total.alerts()]


MOVE_TIMEOUT_S = 60
ROUND_S = 3
"""How long `OperatorPort.move_slot` waits for the end of a move."""


async def _move_here(context: Context, call: Call) -> NodeResult:
    """Move a slot of this node; a row says that it still moves."""
    moved = await require_cluster(context).move_slot(call.arguments["slot"], call.arguments["node"])
    return NodeResult([] if moved else [("moving",)])


async def _move(context: Context, call: Call) -> list[Part]:
    cluster = require_cluster(context)
    slot, node = call.arguments["slot"], call.arguments["node"]
    known = [row.node for row in cluster.rows()]
    if node not in known:
        raise CommandError(f"{node} is not a member of this cluster. Members are {', '.join(known)}.")
    await _give(context, call, slot, node)
    return [DONE]


async def _give(context: Context, call: Call, slot: int, node: str) -> None:
    """Move a slot to a node. Raises `CommandError`, `ClusterError`."""
    timeout_s = call.flag("timeout", MOVE_TIMEOUT_S)
    asked = Call({"slot": slot, "node": node}, [], [])
    for _ in range(max(1, timeout_s // ROUND_S)):
        primary = slot_table(context)[0].row(slot).primary
        if primary is None:
            raise CommandError(f"slot {slot} has no primary now: none of the nodes with its sessions is there.")
        if primary.node == node or not (await run_on(context, primary.node, "slot move", _move_here, asked)).rows:
            return
        await call.report(f"slot {slot} moves from {primary.node} to {node}")
    raise CommandError(f"slot {slot} has not moved within {timeout_s} s. It may still move: see the log.")


async def _balance(context: Context, call: Call) -> list[Part]:
    cluster = require_cluster(context)
    moved, stayed = 0, []
    for slot in range(SLOTS):
        table, zones = slot_table(context)
        # a silent node keeps its slots until the cluster takes it out of the view
        there = [row.node for row in cluster.rows() if row.state in ("serving", "silent")]
        serving = {node: zones[node] for node in there if node in zones}
        primary, target = table.row(slot).primary, first_wanted(slot, serving) if serving else ""
        if primary is None or not target or primary.node == target:
            continue
        try:
            await _give(context, call, slot, target)
        except (CommandError, ClusterError) as error:
            stayed.append(str(error))
            await call.report(str(error))
        else:
            moved += 1
            await call.report(f"slot {slot} has moved from {primary.node} to {target}")
    if stayed:
        raise CommandError(f"{moved} slots have moved, {len(stayed)} have not: repeat the command. {stayed[-1]}")
    return [Text(f"{DONE.text}: {moved} slots have moved")]


ALL = "all"


def slot_or_all(text: str) -> int | str:
    """Parse the number of a slot, or `all`. The ValueError says what is expected."""
    try:
        return ALL if text == ALL else slot_number(text)
    except ValueError as error:
        raise ValueError(f"{error}, or {ALL}") from None


async def _recover(context: Context, call: Call) -> list[Part]:
    cluster = require_cluster(context)
    found = cluster.orphans()
    if "slot" not in call.arguments:
        return [orphan_table(found)]
    if cluster.status().sees == "minority":
        raise CommandError(
            f"{cluster.name} has no lease, and may not know which slots have a primary: ask another node."
        )
    asked = call.arguments["slot"]
    chosen = [orphan for orphan in found if asked in (ALL, orphan.slot)]
    if not chosen:
        return [Text(f"{DONE.text}: {'each slot' if asked == ALL else f'slot {asked}'} has a primary, or needs none")]
    if not call.has("accept-loss"):
        holders = sorted({holder.node for orphan in chosen for holder in orphan.holders})
        raise CommandError(
            f"Sessions and messages of the slots {' '.join(ranges([orphan.slot for orphan in chosen]))} are at "
            f"{' and '.join(holders)}: start these nodes, or use --accept-loss to lose what only they have."
        )
    got = await cluster.recover_slots([orphan.slot for orphan in chosen])
    lines = []
    for node, older in sorted(set(got.values())):
        slots = " ".join(ranges([slot for slot, value in got.items() if value == (node, older)]))
        what = "an older copy, without the last changes" if older else "no copy: clients begin new sessions"
        lines.append(f"{node} is the primary of the slots {slots}, and has {what}")
        context.server.log("notice", f"slot recover slot={asked} --accept-loss: {lines[-1]}")
    return [Text("\n".join([*lines, DONE.text]))]


def orphan_table(found: list[Orphan]) -> Table:
    """Return one row for each last holder of the slots that have the same holders."""
    groups: dict[tuple[LastHolder, ...], list[Orphan]] = {}
    for orphan in found:
        groups.setdefault(orphan.holders, []).append(orphan)
    rows: list[tuple[Cell, ...]] = []
    for holders, group in groups.items():
        slots, filters = " ".join(ranges([each.slot for each in group])), sum(each.filters for each in group)
        for holder in holders:
            state = f"{'here' if holder.here else 'away'}{'' if holder.complete else ', may lack changes'}"
            rows.append((slots, filters, holder.node, holder.disk, state, holder.away_s, _remedy(holder, holders)))
    return Table(("Slots", "Filters", "Node", "Disk", "State", "Away (s)", "What to do"), rows)


def _remedy(holder: LastHolder, holders: tuple[LastHolder, ...]) -> str:
    if holder.here:
        return "waits for the others; slot recover gives it the slots, with what it has"
    if holder.complete:
        return "start it with its disk: it gets the slots"
    if any(other.complete for other in holders):
        return "start the complete one"
    return "start it: when all are back, one of them gets the slots"


LOCAL_HANDLERS: dict[str, LocalHandler] = {"slot move": _move_here, "slot check": _check_here}
"""What a node does with its slots when another member asks for it."""

TIMEOUT = Flag(
    "timeout",
    f"how long to wait for the end of a move; default {MOVE_TIMEOUT_S}",
    "t",
    "SECONDS",
    convert=seconds(LONGEST_S),
)

COMMANDS = (
    Command(
        "slot balance",
        "Move each slot with its sessions to the node that should have it. Its clients are disconnected.",
        _balance,
        flags=(TIMEOUT,),
    ),
    Command(
        "slot check",
        "Compare the copies of all slots, or of one, with the rows of their primaries now, and repair them.",
        _check,
        arguments=(Argument("slot", f"one slot, 0 to {SLOTS - 1}", slot_number, optional=True),),
    ),
    Command(
        "slot move",
        "Move a slot with its sessions to another node. Its clients are disconnected, and connect again.",
        _move,
        arguments=(
            Argument("slot", f"the slot, 0 to {SLOTS - 1}", slot_number),
            Argument("node", "the node that gets it"),
        ),
        flags=(TIMEOUT,),
    ),
    Command(
        "slot recover",
        "Show who had the slots without primary last; or give them to other nodes, and lose what only those had.",
        _recover,
        arguments=(Argument("slot", f"one slot, 0 to {SLOTS - 1}, or {ALL}", slot_or_all, optional=True),),
        flags=(Flag("accept-loss", "give the slots to other nodes, although sessions and messages are lost"),),
    ),
    Command(
        "slot show",
        "Show which node is primary of which slots, or one slot.",
        _show,
        arguments=(Argument("slot", f"one slot, 0 to {SLOTS - 1}, with its holders", slot_number, optional=True),),
    ),
)

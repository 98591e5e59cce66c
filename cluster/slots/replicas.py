"""Which nodes should get copies of a primary's slots, and the change of the table that adds one. Pure, without I/O.

A node with a slow disk gets copies only while a slot would else have fewer of them, or have them in fewer zones. While
other nodes can have all copies as well, another one takes its place, like that of any follower that is not wanted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from msgspec.structs import replace

from ..identity import SLOTS
from .placement import wanted
from .table import Holder, SlotRow, SlotTable


def followers(
    table: SlotTable, own: Holder, zones: Mapping[str, str], copies: int, slow: Collection[str] = ()
) -> dict[int, str]:
    """Returns slot -> the node that should get a copy, for the slots of which `own` is primary and that need one.

    `zones`: serving node -> its zone; `copies`: how many nodes should have each slot, the primary included; `slow`: the
    nodes with a slow disk. A node that should not have a copy keeps it until the one that should is in sync.
    """
    found = {}
    able, most = _able(zones, own.node, copies, slow), _spread(zones, zones, copies)
    wished = _followers_by_slot(own.node, tuple(able.items()), copies)
    for slot in table.slots_by_primary.get(own.node, ()):
        row = table.row(slot)
        if row.primary == own:
            held = [holder.node for holder in row.in_sync]
            missing = [node for node in wished[slot] if node not in held]
            if slow and _spread(held, zones, copies) == most:
                missing = [node for node in missing if node not in slow]
            if missing:
                found[slot] = missing[0]
    return found


def _able(zones: Mapping[str, str], primary: str, copies: int, slow: Collection[str]) -> Mapping[str, str]:
    """Returns the nodes that followers are chosen from: those whose disk is not slow, if they can have all copies."""
    if not slow:
        return zones
    able = {node: zone for node, zone in zones.items() if node not in slow or node == primary}
    return able if _spread(able, zones, copies) == _spread(zones, zones, copies) else zones


def _spread(nodes: Iterable[str], zones: Mapping[str, str], copies: int) -> tuple[int, int]:
    """Returns how many copies these nodes can have, and in how many zones."""
    found = [zones[node] for node in nodes if node in zones]
    return min(copies, len(found)), min(copies, len(set(found)))


def wanted_followers(slot: int, primary: str, zones: Mapping[str, str], copies: int) -> list[str]:
    """Returns the nodes that should have a copy of a slot beside its primary, best first."""
    return list(_followers_by_slot(primary, tuple(zones.items()), copies)[slot])


@lru_cache(maxsize=64)
def _followers_by_slot(primary: str, zones: tuple[tuple[str, str], ...], copies: int) -> tuple[tuple[str, ...], ...]:
    """For each slot what `wanted_followers` returns: see `placement.py`."""
    return tuple([_followers(slot, primary, dict(zones), copies) for slot in range(SLOTS)])


def _followers(slot: int, primary: str, zones: Mapping[str, str], copies: int) -> tuple[str, ...]:
    others = {node: zone for node, zone in zones.items() if node != primary}
    apart = {node: zone for node, zone in others.items() if zone != zones.get(primary)}
    best = wanted(slot, apart, copies - 1) if apart else ()
    rest = [node for node in wanted(slot, others, copies - 1) if node not in best]
    return (*best, *rest[: copies - 1 - len(best)])


def with_copy(
    row: SlotRow, holder: Holder, zones: Mapping[str, str], copies: int, slow: Collection[str] = ()
) -> SlotRow:
    """Returns the change to request when `holder` has everything: it enters the in-sync set.

    If that exceeds `copies`, it takes the place of one follower, of one that is not wanted if there is one. It never
    takes the place of two: the table refuses that. `zones`, `copies` and `slow` as in `followers`.
    """
    assert row.primary is not None
    rest = [each for each in row.in_sync if each not in (row.primary, holder)]
    wished = wanted_followers(row.slot, row.primary.node, _able(zones, row.primary.node, copies, slow), copies)
    rest.sort(key=lambda each: (each.node not in wished, each.node))
    if len(rest) > copies - 2 and holder not in row.in_sync:
        rest = rest[:-1]
    return replace(row, in_sync=(row.primary, *rest, holder))

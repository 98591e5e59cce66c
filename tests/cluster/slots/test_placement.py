"""Rendezvous hashing: the spread, the zones, and what moves when a node comes or goes."""

from __future__ import annotations

from collections import Counter

import pytest

from strogoff.cluster.identity import SLOTS
from strogoff.cluster.slots.placement import wanted


def nodes(count: int, zones: int = 0) -> dict[str, str]:
    """Nodes with their zones; each its own if `zones` is 0."""
    names = [f"n{number}@10.0.0.{number}" for number in range(1, count + 1)]
    return {name: f"rack{at % zones}" if zones else name for at, name in enumerate(names)}


def placed(of: dict[str, str], copies: int) -> list[tuple[str, ...]]:
    return [wanted(slot, of, copies) for slot in range(SLOTS)]


EXPECTED = [("n2@10.0.0.2", "n1@10.0.0.1"), ("n2@10.0.0.2", "n3@10.0.0.3"), ("n1@10.0.0.1", "n2@10.0.0.2")]
"""Slots 0, 17 and 255 on three nodes, two copies."""


def test_the_placement_of_a_slot_never_changes_with_the_code() -> None:
    assert [wanted(slot, nodes(3), 2) for slot in (0, 17, 255)] == EXPECTED


@pytest.mark.parametrize("copies", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
def test_copies_are_at_different_nodes_and_well_spread(count: int, copies: int) -> None:
    of = nodes(count)
    held: Counter[str] = Counter()
    for holders in placed(of, copies):
        assert len(set(holders)) == len(holders) == min(copies, count)
        held.update(holders)
    even = SLOTS * min(copies, count) / count
    assert set(held) == set(of) and all(0.5 * even < number < 1.5 * even for number in held.values())
    first = Counter(holders[0] for holders in placed(of, copies))
    assert all(0.5 * SLOTS / count < first[node] < 1.5 * SLOTS / count for node in of)


def test_the_order_of_the_nodes_does_not_matter() -> None:
    of = nodes(5, 2)
    assert placed(dict(reversed(of.items())), 3) == placed(of, 3)


@pytest.mark.parametrize("zones", [0, 2, 3])
def test_each_copy_is_in_another_zone_while_there_is_one(zones: int) -> None:
    of = nodes(6, zones)
    for copies in (1, 2, 3, 6):
        for holders in placed(of, copies):
            used = {of[node] for node in holders}
            assert len(used) == min(copies, zones or 6) and len(holders) == copies


def test_two_zones_of_unequal_size_hold_one_copy_each() -> None:
    of = {"a": "left", "b": "left", "c": "left", "d": "right"}
    assert all("d" in holders for holders in placed(of, 2))


@pytest.mark.parametrize("count", [2, 3, 5, 9])
def test_a_node_that_comes_or_goes_moves_its_own_copies_alone(count: int) -> None:
    few, more = nodes(count), nodes(count + 1)
    (new,) = set(more) - set(few)
    moved = 0
    for before, after in zip(placed(few, 2), placed(more, 2), strict=True):
        gone = set(before) - set(after)
        assert (set(after) - set(before) == {new}) if gone else after == before or set(after) == set(before)
        moved += len(gone)
    share = 2 * SLOTS / (count + 1)
    assert (0 if count == 1 else 0.5 * share) < moved < 1.5 * share


def test_no_node_holds_nothing() -> None:
    assert wanted(7, {}, 2) == ()

"""Which nodes get copies of a primary's slots, and the change of the table that adds one."""

from __future__ import annotations

import random

import pytest

from strogoff.cluster.identity import SLOTS
from strogoff.cluster.slots.placement import wanted
from strogoff.cluster.slots.replicas import followers, wanted_followers, with_copy
from strogoff.cluster.slots.requests import taken_out
from strogoff.cluster.slots.table import NO_ROWS, Holder, SlotRow, SlotTable

HOLDERS = {node: Holder(node, f"disk-{node}", view) for view, node in enumerate("abcde", 1)}
A, B, C, D = (HOLDERS[node] for node in "abcd")
OWN_ZONES = {node: node for node in HOLDERS}


def zones(nodes: str) -> dict[str, str]:
    return {node: node for node in nodes}


def table(*in_sync: Holder) -> SlotTable:
    return SlotTable(tuple([SlotRow(row.slot, 10, 10, in_sync[0], in_sync) for row in NO_ROWS]), 10)


def test_each_slot_with_one_holder_needs_a_copy_where_the_placement_says() -> None:
    found = followers(table(A), A, zones("abc"), 2)
    assert sorted(found) == list(range(SLOTS))
    for slot, node in found.items():
        best = wanted(slot, zones("abc"), 2)
        assert node == next(each for each in best if each != "a")
    assert min(list(found.values()).count(node) for node in "bc") > 80


@pytest.mark.parametrize(("nodes", "copies"), [("a", 2), ("", 2), ("ab", 1), ("abc", 1)])
def test_no_copy_without_another_node_or_with_one_copy(nodes: str, copies: int) -> None:
    assert followers(table(A), A, zones(nodes), copies) == {}


def test_the_slots_of_another_process_or_another_primary_are_not_copied() -> None:
    assert followers(table(A), Holder("a", "disk-a", 9), zones("abc"), 2) == {}
    assert followers(table(B), A, zones("abc"), 2) == {}


def test_a_follower_that_is_wanted_is_enough_and_one_that_is_not_is_replaced() -> None:
    found = followers(table(A, B), A, zones("abc"), 2)
    assert set(found.values()) == {"c"}
    assert set(found) == {slot for slot in range(SLOTS) if wanted_followers(slot, "a", zones("abc"), 2) == ["c"]}
    assert followers(table(A, B), A, zones("ab"), 2) == {}


def test_a_follower_that_does_not_serve_is_replaced() -> None:
    assert set(followers(table(A, B), A, zones("ac"), 2).values()) == {"c"}


def test_with_three_copies_the_best_missing_node_is_first() -> None:
    for slot, node in followers(table(A), A, zones("abcd"), 3).items():
        assert node == wanted_followers(slot, "a", zones("abcd"), 3)[0]
    found = followers(table(A, B), A, zones("abc"), 3)
    assert len(found) == SLOTS and set(found.values()) == {"c"}


def test_copies_are_in_other_zones_than_the_primary() -> None:
    racks = {"a": "left", "b": "left", "c": "left", "d": "right"}
    assert set(followers(table(A), A, racks, 2).values()) == {"d"}
    assert set(followers(table(A, B), A, racks, 2).values()) == {"d"}
    assert followers(table(A, D), A, racks, 2) == {}
    assert set(followers(table(A), A, dict.fromkeys("abc", "left"), 2).values()) == {"b", "c"}


@pytest.mark.parametrize("copies", [2, 3])
def test_a_wanted_primary_wants_the_other_nodes_of_the_placement(copies: int) -> None:
    for slot in range(SLOTS):
        best = wanted(slot, OWN_ZONES, copies)
        assert all(
            wanted_followers(slot, each, OWN_ZONES, copies) == [node for node in best if node != each] for each in best
        )


def test_a_copy_enters_the_in_sync_set() -> None:
    assert with_copy(SlotRow(7, 10, 11, A, (A,)), B, zones("abc"), 2) == SlotRow(7, 10, 11, A, (A, B))
    assert with_copy(SlotRow(7, 10, 11, A, (A, B)), C, zones("abc"), 3) == SlotRow(7, 10, 11, A, (A, B, C))
    assert with_copy(SlotRow(7, 10, 11, A, (A, B)), B, zones("abc"), 2) == SlotRow(7, 10, 11, A, (A, B))


def test_a_copy_takes_the_place_of_one_that_is_not_wanted() -> None:
    assert with_copy(SlotRow(7, 10, 11, B, (A, B)), C, zones("abc"), 2) == SlotRow(7, 10, 11, B, (B, C))
    for slot in range(SLOTS):
        (kept,) = wanted_followers(slot, "a", zones("bc"), 2)
        other = "c" if kept == "b" else "b"
        after = with_copy(SlotRow(slot, 10, 11, A, (A, B, C)), D, {"a": "a", kept: kept}, 3)
        assert after.in_sync == (A, HOLDERS[kept], D) and HOLDERS[other] not in after.in_sync


def test_a_copy_never_takes_the_place_of_two() -> None:
    """The table refuses that. So after the number of copies was lowered, sets stay larger until followers leave."""
    after = with_copy(SlotRow(7, 10, 11, A, (A, B, C)), D, zones("abcd"), 2)
    assert after.primary == A and len(after.in_sync) == 3 and {A, D} < set(after.in_sync)


@pytest.mark.parametrize("seed", range(20))
def test_copies_end_where_the_placement_wants_them(seed: int) -> None:
    """Each change is valid, and none takes anything back: at most one step for each wanted copy."""
    rng = random.Random(seed)
    copies = rng.randint(1, 4)
    serving = {node: rng.choice("xyz") for node in HOLDERS if node == "a" or rng.random() < 0.8}
    others = rng.sample([holder for holder in HOLDERS.values() if holder != A], rng.randint(0, copies - 1))
    rows = list(table(A, *others).rows)
    for _ in range(copies - 1):
        for slot, node in followers(SlotTable(tuple(rows), 10), A, serving, copies).items():
            after = with_copy(rows[slot], HOLDERS[node], serving, copies)
            assert not taken_out(after, rows[slot], "") and len(after.in_sync) <= copies and after.primary == A
            rows[slot] = after
    assert followers(SlotTable(tuple(rows), 10), A, serving, copies) == {}
    assert all(len(row.in_sync) >= min(copies, len(serving)) for row in rows)


def test_no_copy_is_made_at_a_slow_node_while_others_can_have_it() -> None:
    found = followers(table(A), A, zones("abc"), 2, ["b"])
    assert sorted(found) == list(range(SLOTS)) and set(found.values()) == {"c"}


def test_another_copy_takes_the_place_of_a_slow_one() -> None:
    found = followers(table(A, B), A, zones("abc"), 2, ["b"])
    assert sorted(found) == list(range(SLOTS)) and set(found.values()) == {"c"}
    for slot in found:
        row = SlotRow(slot, 10, 11, A, (A, B))
        assert with_copy(row, C, zones("abc"), 2, ["b"]).in_sync == (A, C)
    assert followers(table(A, C), A, zones("abc"), 2, ["b"]) == {}


def test_with_three_copies_the_slow_one_is_replaced() -> None:
    found = followers(table(A, B, C), A, zones("abcd"), 3, ["b"])
    assert sorted(found) == list(range(SLOTS)) and set(found.values()) == {"d"}
    assert all(
        with_copy(SlotRow(slot, 10, 11, A, (A, B, C)), D, zones("abcd"), 3, "b").in_sync == (A, C, D) for slot in found
    )


@pytest.mark.parametrize(("nodes", "slow"), [("ab", "b"), ("abc", "bc"), ("ab", "ab"), ("abc", "abc")])
def test_a_slow_copy_stays_if_no_other_node_can_have_it(nodes: str, slow: str) -> None:
    assert followers(table(A, B), A, zones(nodes), 2, slow) == {}


def test_a_slot_gets_a_copy_at_a_slow_node_rather_than_none() -> None:
    assert set(followers(table(A), A, zones("ab"), 2, ["b"]).values()) == {"b"}
    assert set(followers(table(A), A, zones("abc"), 2, ["b", "c"]).values()) == {"b", "c"}


def test_a_slow_primary_chooses_its_followers_as_before() -> None:
    assert followers(table(A), A, zones("abc"), 2, ["a"]) == followers(table(A), A, zones("abc"), 2)
    assert followers(table(A, B), A, zones("abc"), 2, ["a"]) == followers(table(A, B), A, zones("abc"), 2)
    places = {"a": "rack1", "b": "rack2", "c": "rack1"}
    assert set(followers(table(A), A, places, 2, ["a"]).values()) == {"b"}


def test_a_slow_copy_in_another_zone_stays_if_the_others_are_in_the_zone_of_the_primary() -> None:
    places = {"a": "rack1", "b": "rack2", "c": "rack1"}
    assert followers(table(A, B), A, places, 2, ["b"]) == {}
    assert set(followers(table(A, C), A, places, 2, ["b"]).values()) == {"b"}, "both copies would fail together"
    assert with_copy(SlotRow(7, 10, 11, A, (A, C)), B, places, 2, ["b"]).in_sync == (A, B)

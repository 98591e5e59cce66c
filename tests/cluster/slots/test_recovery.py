"""Slots without primary: which nodes may get them, and which do."""

from __future__ import annotations

import pytest

from strogoff.cluster.slots.recovery import back, lost_with, only_with, orphans, requests, wrong_recovery
from strogoff.cluster.slots.table import NO_ROWS, Holder, SlotRow, SlotTable

A, B, C, D = (Holder(node, f"disk-{node}", view) for node, view in (("a", 1), ("b", 2), ("c", 3), ("d", 4)))


def away(holder: Holder) -> Holder:
    return Holder(holder.node, holder.disk, 0)


def row(slot: int = 7, *in_sync: Holder, incomplete: str = "") -> SlotRow:
    return SlotRow(slot, 10, 20, None, in_sync or (away(A), away(B)), C, 5, tuple(incomplete))


def present(*holders: Holder) -> dict[str, Holder]:
    return {holder.node: holder for holder in holders}


def test_slots_without_primary_that_had_one() -> None:
    rows = [SlotRow(each.slot, 1, 1, A, (A,)) for each in NO_ROWS]
    rows[3], rows[9], rows[5] = row(3), row(9), SlotRow(5, 1, 1)
    assert [each.slot for each in orphans(SlotTable(tuple(rows), 1))] == [3, 9]


def test_a_holder_is_back_with_its_disk_alone() -> None:
    assert back(row(incomplete="a").in_sync, present(A, C)) == [A]
    assert back(row().in_sync, present(Holder("a", "another", 9), C)) == []


@pytest.mark.parametrize(
    ("orphan", "target", "here", "reason"),
    [
        (SlotRow(7, 10, 20, A, (A,)), C, present(A, C), "it has a primary: a"),
        (SlotRow(7, 10, 20), C, present(C), "no node has a copy that could come back"),
        (row(), None, present(C), "no node is named"),
        (row(), C, present(A, C), "a has every acknowledged change, and is in the view"),
        (row(incomplete="b"), B, present(A, B, C), "a has every acknowledged change"),
        (row(incomplete="a"), C, present(A, C), "a is back with an older copy"),
        (row(), C, present(D), "c is not in the view as the request names it"),
        (row(), Holder("c", "disk-c", 2), present(C), "c is not in the view as the request names it"),
        (row(), D, present(C, D), "d does not serve"),
    ],
)
def test_a_recovery_that_is_refused(
    orphan: SlotRow, target: Holder | None, here: dict[str, Holder], reason: str
) -> None:
    assert wrong_recovery(orphan, target, here, ("c",)).startswith(reason)


def test_a_recovery_that_is_accepted() -> None:
    assert wrong_recovery(row(), C, present(C, D), ("c", "d")) == ""
    assert wrong_recovery(row(incomplete="a"), A, present(A, C), ("c",)) == ""
    assert wrong_recovery(row(incomplete="ab"), B, present(A, B), ()) == ""


def test_the_slots_go_to_serving_nodes_in_turn_and_to_holders_that_are_back() -> None:
    rows = [row(1), row(2), row(3), row(4, away(A), away(B), incomplete="a")]
    found = requests(rows, present(A, C, D), ("c", "d"))
    assert [each.primary for each in found][3] == A
    only = requests(rows[:3], present(C, D), ("c", "d"))
    assert [(each.slot, each.primary, each.in_sync) for each in only] == [(1, C, (C,)), (2, D, (D,)), (3, C, (C,))]
    assert {(each.epoch, each.version) for each in only} == {(10, 20)}


def test_no_request_is_made_if_no_node_serves() -> None:
    assert requests([row(1)], present(C), ()) == []


def test_a_node_with_a_full_disk_gets_a_slot_only_if_there_is_no_other() -> None:
    """No session can begin there."""
    here = present(A, B, C, D)
    assert [each.primary for each in requests([row(1), row(2)], present(C, D), ("c", "d"), ("c",))] == [D, D]
    assert [each.primary for each in requests([row(1), row(2)], present(C, D), ("c", "d"), ("c", "d"))] == [C, D]
    (found,) = requests([row(1, away(A), away(B), incomplete="ab")], here, ("c", "d"), ("a",))
    assert found.primary == B


def test_the_slots_that_are_lost_with_a_disk() -> None:
    """No other last holder has everything."""
    rows = [SlotRow(each.slot, 1, 1, C, (C,)) for each in NO_ROWS]
    rows[1], rows[2], rows[4] = row(1, away(A)), row(2), row(4, away(B))
    rows[3] = row(3, incomplete="b")
    table = SlotTable(tuple(rows), 20)
    assert [[each.slot for each in lost_with(table, node)] for node in "abc"] == [[1, 3], [4], []]


def test_slots_that_only_one_node_has() -> None:
    """Whether it serves them or is away. A copy that lacks the last changes does not count."""
    rows = [SlotRow(each.slot, 1, 1, B, (B,)) for each in NO_ROWS]
    rows[3], rows[5], rows[6] = SlotRow(3, 1, 1, A, (A,)), SlotRow(5, 1, 1, A, (A, B)), SlotRow(6, 1, 1)
    rows[7], rows[8] = row(7), row(8, away(A), away(B), incomplete="b")
    assert only_with(SlotTable(tuple(rows), 1), "a") == [3, 8]

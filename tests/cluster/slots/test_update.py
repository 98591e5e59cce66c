"""The next rows of the slot table: what follows from members and view, and which requests are refused."""

from __future__ import annotations

import pytest

from strogoff.cluster.identity import SLOTS
from strogoff.cluster.slots.table import HOLDERS_MOST, NO_ROWS, Holder, SlotRow, SlotTable, pack, unpack
from strogoff.cluster.slots.update import Roll, TableUpdate

A, B, C = (Holder(node, f"disk-{node}", view) for node, view in (("a", 1), ("b", 2), ("c", 3)))


def away(holder: Holder) -> Holder:
    return Holder(holder.node, holder.disk, 0)


def roll(*present: Holder, serving: str = "", gone: str = "", incomplete: str = "") -> Roll:
    """Members a, b and c but for those that are `gone`; `serving` are all that are present unless it is given."""
    nodes = tuple(serving) or tuple(holder.node for holder in present)
    disks = {(node, f"disk-{node}") for node in "abc" if node not in gone}
    found = {holder.node: holder for holder in present}
    return Roll(found, nodes if serving != "-" else (), disks, tuple(incomplete))


def table(*in_sync: Holder, deputy: Holder | None = None) -> SlotTable:
    """All slots have these holders, since entry 10; the first is primary, unless they are away."""
    primary = in_sync[0] if in_sync[0].entered_in_view else None
    return SlotTable(tuple([SlotRow(row.slot, 10, 10, primary, in_sync, deputy) for row in NO_ROWS]), 10)


def follow(before: SlotTable, after: Roll, index: int = 20) -> TableUpdate:
    update = TableUpdate(before, after, index)
    update.follow()
    return update


def test_the_table_begins_with_all_slots_at_one_node() -> None:
    update = TableUpdate(SlotTable(), roll(A, B), 3)
    update.begin("a")
    assert update.table.index == 3 and update.table.slots_by_primary == {"a": tuple(range(SLOTS))}
    assert update.table.row(9) == SlotRow(9, 3, 3, A, (A,), None, 3)


def test_nothing_changes_without_a_reason() -> None:
    for before in (table(A), table(A, B), table(away(A), away(B), deputy=C)):
        present = roll(A, B, C) if before.row(0).primary else roll(C)
        assert follow(before, present).table is before


def test_a_primary_that_leaves_is_followed_by_another_holder() -> None:
    row = follow(table(A, B), roll(B, C)).table.row(7)
    assert row == SlotRow(7, 20, 20, B, (B,), None, 20)


def test_a_holder_that_leaves_ends_no_epoch() -> None:
    assert follow(table(A, B), roll(A, C)).table.row(7) == SlotRow(7, 10, 20, A, (A,))


def test_the_holder_with_the_fewest_slots_follows() -> None:
    """B has 100 slots of its own, so C gets more of the others; equal numbers go by name."""
    rows = [
        SlotRow(slot, 10, 10, B, (B,)) if slot < 100 else SlotRow(slot, 10, 10, A, (A, B, C)) for slot in range(SLOTS)
    ]
    found = follow(SlotTable(tuple(rows), 10), roll(B, C)).table
    assert {node: len(slots) for node, slots in found.slots_by_primary.items()} == {"b": 128, "c": 128}
    assert [found.row(slot).primary for slot in (100, 199, 200, 201, 202)] == [C, C, B, C, B]


def test_without_a_holder_in_the_view_there_is_no_primary_and_no_holder_is_forgotten() -> None:
    row = follow(table(A, B), roll(C, serving="-")).table.row(7)
    assert row == SlotRow(7, 10, 20, None, (away(A), away(B)))


def test_slots_without_primary_get_the_serving_nodes_as_deputies_in_another_epoch() -> None:
    found = follow(table(A), roll(B, C)).table
    assert found.row(7) == SlotRow(7, 20, 20, None, (away(A),), C) and found.row(6).deputy == B
    assert sum(row.deputy == B for row in found.rows) == sum(row.deputy == C for row in found.rows) == SLOTS // 2
    joining = follow(table(A), roll(B, C, serving="c")).table
    assert {row.deputy for row in joining.rows} == {C}


def test_a_deputy_stays_while_it_serves() -> None:
    kept = follow(table(away(A), deputy=C), roll(B, C), 30).table
    assert kept.index == 10 and kept.row(7).deputy == C
    again = Holder("c", "disk-c", 9)
    assert follow(table(away(A), deputy=C), roll(again), 30).table.row(7) == SlotRow(7, 30, 30, None, (away(A),), again)
    assert follow(table(away(A), deputy=C), roll(B, C, serving="b")).table.row(7).deputy == B
    nobody = follow(table(away(A), deputy=C), roll(C, serving="-")).table.row(7)
    assert nobody == SlotRow(7, 10, 20, None, (away(A),))


def test_the_deputy_ends_with_the_return_of_a_primary() -> None:
    again = Holder("a", "disk-a", 5)
    assert follow(table(away(A), deputy=C), roll(again, C)).table.row(7) == SlotRow(7, 20, 20, again, (again,))


def test_the_first_holder_that_returns_with_its_disk_gets_the_slot_in_another_epoch() -> None:
    returned = Holder("b", "disk-b", 5)
    row = follow(table(away(A), away(B), deputy=C), roll(returned, C, serving="c")).table.row(7)
    assert row == SlotRow(7, 20, 20, returned, (returned,), None, 20)
    assert follow(table(away(A)), roll(A), 30).table.row(7) == SlotRow(7, 30, 30, A, (A,))


def test_an_incomplete_holder_waits_for_the_others_and_comes_behind_them() -> None:
    lost = follow(table(away(A), away(B), deputy=C), roll(C, incomplete="a")).table
    assert lost.row(7) == SlotRow(7, 10, 20, None, (away(A), away(B)), C, 0, ("a",))
    waits = follow(lost, roll(A, C), 30).table
    assert waits.row(7) == SlotRow(7, 10, 30, None, (away(B), away(A)), C, 30, ("a",))
    assert waits.row(7).home == "b" and unpack(pack(waits)) == waits
    update = follow(waits, roll(A, B, C), 40)
    assert update.table.row(7) == SlotRow(7, 40, 40, B, (B,), None, 30) and not update.doubtful


def test_one_of_holders_that_are_all_incomplete_gets_the_slot_when_all_are_back() -> None:
    lost = follow(table(away(A), away(B), deputy=C), roll(C, incomplete="ab")).table
    waits = follow(lost, roll(B, C), 30)
    assert waits.table.row(7).primary is None and not waits.doubtful
    update = follow(waits.table, roll(A, B, C), 40)
    assert {row.primary for row in update.table.rows} == {A, B}
    assert {node: len(rows) for node, rows in update.doubtful.items()} == {"a": 128, "b": 128}
    assert update.table.row(7).incomplete == ()


def test_an_incomplete_holder_is_the_last_if_the_disks_of_the_others_are_given_up() -> None:
    lost = follow(table(away(A), away(B), deputy=C), roll(C, incomplete="a")).table
    update = follow(lost, roll(A, C, gone="b"), 30)
    assert update.table.row(7).primary == A and len(update.doubtful["a"]) == SLOTS


def test_the_only_holder_gets_its_slots_also_if_it_is_incomplete() -> None:
    lost = follow(table(away(A)), roll(C, incomplete="a")).table
    update = follow(lost, roll(A, C), 30)
    assert update.table.row(7).in_sync == (A,) and len(update.doubtful["a"]) == SLOTS


def test_an_operator_recovers_slots() -> None:
    update = TableUpdate(table(away(A), away(B), deputy=C), roll(Holder("b", "new", 9), C), 20)
    asked = SlotRow(7, 10, 10, C, (C,)), SlotRow(8, 10, 9, C, (C,)), SlotRow(9, 10, 10, None)
    refused = update.recover(asked)
    assert [(change.slot, reason[:20]) for change, reason in refused] == [
        (8, "made for epoch 10, v"),
        (9, "no node is named tha"),
    ]
    assert update.table.row(7) == SlotRow(7, 20, 20, C, (C,), None, 20) and update.table.row(8).primary is None
    assert [row.slot for row in update.doubtful["c"]] == [7]


def test_of_holders_that_return_together_one_is_in_sync() -> None:
    table_after = follow(table(away(A), away(B)), roll(A, B)).table
    assert {node: len(slots) for node, slots in table_after.slots_by_primary.items()} == {"a": 128, "b": 128}
    assert all(row.in_sync == (row.primary,) for row in table_after.rows)


def test_a_follower_that_becomes_primary_is_alone_in_sync() -> None:
    """C's copy followed A, and may have changes that B lacks."""
    row = follow(table(A, B, C), roll(B, C)).table.row(7)
    assert row == SlotRow(7, 20, 20, row.primary, (row.primary,), None, 20) and row.primary in (B, C)  # type: ignore[arg-type]
    left = follow(table(A, B, C), roll(B, C, gone="a")).table.row(7)
    assert left.in_sync == (left.primary,)


def test_a_follower_that_leaves_the_view_leaves_the_others_in_sync() -> None:
    assert follow(table(A, B, C), roll(A, C)).table.row(7) == SlotRow(7, 10, 20, A, (A, C))


def test_another_incarnation_is_no_holder() -> None:
    again = Holder("a", "disk-a", 9)
    assert follow(table(A, B), roll(again, B)).table.row(7) == SlotRow(7, 20, 20, B, (B,), None, 20)
    assert follow(table(B, A), roll(again, B)).table.row(7) == SlotRow(7, 10, 20, B, (B,))
    assert follow(table(A), roll(again)).table.row(7) == SlotRow(7, 20, 20, again, (again,))


def test_a_disk_that_is_given_up_goes_without_loss_if_another_holder_is_left() -> None:
    update = follow(table(away(A), away(B)), roll(C, gone="a"))
    assert update.table.row(7) == SlotRow(7, 20, 20, None, (away(B),), C, 20) and not update.lost


def test_the_last_disk_that_is_given_up_loses_the_slot_and_a_serving_node_gets_it_empty() -> None:
    update = follow(table(away(A)), roll(B, C, serving="c", gone="a"))
    assert update.lost == {"a": list(range(SLOTS))}
    assert update.table.row(7) == SlotRow(7, 20, 20, C, (C,), None, 20)
    shared = follow(table(away(A)), roll(B, C, gone="a")).table
    assert {node: len(slots) for node, slots in shared.slots_by_primary.items()} == {"b": 128, "c": 128}


def test_an_empty_slot_waits_for_a_serving_node() -> None:
    update = follow(table(away(A)), roll(B, serving="-", gone="a"))
    assert len(update.lost["a"]) == SLOTS and update.table.row(7) == SlotRow(7, 10, 20, None, (), None, 20)
    later = TableUpdate(update.table, roll(B, gone="a"), 30)
    later.follow()
    assert later.table.row(7) == SlotRow(7, 30, 30, B, (B,), None, 30) and not later.lost


def test_a_row_says_since_when_its_node_has_the_slot() -> None:
    """A restart of the node is no move; a slot that comes back has moved."""
    first = follow(table(A, B), roll(B)).table
    assert first.row(7).home == "b" and first.row(7).moved == 20
    gone = follow(first, roll(C), 30).table
    assert gone.row(7).home == "b" and gone.row(7).moved == 20
    back = follow(gone, roll(Holder("b", "disk-b", 9)), 40).table
    assert back.row(7).epoch == 40 and back.row(7).moved == 20
    assert unpack(pack(back)) == back


def change(*in_sync: Holder, primary: Holder | None = A, made: tuple[int, int] = (10, 10)) -> SlotRow:
    return SlotRow(7, *made, primary, in_sync)


def test_a_request_adds_a_holder_then_makes_it_primary() -> None:
    update = TableUpdate(table(A), roll(A, B), 20)
    assert update.change((change(B, A),)) == []
    assert update.table.row(7) == SlotRow(7, 10, 20, A, (A, B)) and update.table.row(8).in_sync == (A,)
    update = TableUpdate(update.table, roll(A, B), 30)
    assert update.change((change(B, primary=B, made=(10, 20)),)) == []
    assert update.table.row(7) == SlotRow(7, 30, 30, B, (B,), None, 30) and update.table.index == 30


def test_a_new_holder_takes_the_place_of_a_follower() -> None:
    update = TableUpdate(table(A, B), roll(A, B, C), 20)
    assert update.change((change(A, C),)) == []
    assert update.table.row(7) == SlotRow(7, 10, 20, A, (A, C))


def test_a_follower_takes_itself_out() -> None:
    update = TableUpdate(table(A, B, C), roll(A, B, C), 20)
    assert update.change((change(A, C),), "b") == []
    assert update.table.row(7) == SlotRow(7, 10, 20, A, (A, C)) and update.table.row(8).in_sync == (A, B, C)


def test_the_primary_takes_no_follower_out() -> None:
    before = table(A, B, C)
    update = TableUpdate(before, roll(A, B, C), 20)
    ((_, said),) = update.change((change(A, C),))
    assert said == "it takes b out of the in-sync set and adds 0" and update.table is before


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (change(A, B, made=(10, 9)), "made for epoch 10, version 9; the row has epoch 10, version 10"),
        (change(A, B, made=(9, 10)), "made for epoch 9, version 10; the row has epoch 10, version 10"),
        (change(A, B, primary=None), "it names no primary"),
        (change(A, B, Holder("b", "disk-b", 1)), "it names b twice"),
        (change(A, *[Holder(f"x{n}", "disk", 1) for n in range(HOLDERS_MOST)]), "it names 17 holders, 16 are allowed"),
        (change(A, C), "it names c with disk disk-c that entered in view 3, which is not in the view"),
        (
            change(A, Holder("b", "disk-b", 1)),
            "it names b with disk disk-b that entered in view 1; the view has disk disk-b that entered in view 2",
        ),
        (change(A, away(B)), "it names b with disk disk-b that entered in view 0; the view has"),
        (
            change(A, Holder("b", "other", 2)),
            "it names b with disk other that entered in view 2; the view has disk disk-b",
        ),
        (change(B), "its primary a is not in its in-sync set"),
        (change(A, B, primary=B), "b is not in sync yet, and may lack acknowledged changes"),
    ],
)
def test_wrong_requests_are_refused_with_the_reason(asked: SlotRow, reason: str) -> None:
    before = table(A)
    update = TableUpdate(before, roll(A, B), 20)
    ((refused, said),) = update.change((asked,))
    assert refused is asked and said.startswith(reason)
    assert update.table is before


def test_a_slot_without_primary_takes_no_request() -> None:
    update = TableUpdate(table(away(B)), roll(A), 20)
    ((_, said),) = update.change((change(A),))
    assert said == "it has no primary: one of its holders has to enter first"


def test_each_row_of_a_request_is_accepted_or_refused_for_itself() -> None:
    update = TableUpdate(table(A), roll(A, B), 20)
    wrong, good = SlotRow(3, 1, 1, A, (A, B)), SlotRow(4, 10, 10, A, (A, B))
    assert [refused for refused, _ in update.change((wrong, good, good))] == [wrong, good]
    assert update.table.row(3).in_sync == (A,) and update.table.row(4).in_sync == (A, B)


def test_a_request_without_effect_changes_no_version() -> None:
    before = table(A)
    update = TableUpdate(before, roll(A, B), 20)
    assert update.change((change(A),)) == [] and update.table is before

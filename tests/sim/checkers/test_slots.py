"""The checker of slot tables: one table for each entry, one primary for each epoch, holders of the view."""

from __future__ import annotations

from strogoff.cluster.slots.table import NO_ROWS, Holder, SlotRow, SlotTable
from strogoff.sim.checkers.slots import SlotHistory, judge_losses

A, B = Holder("a", "d", 1), Holder("b", "e", 2)
VIEW = {"a": A, "b": B}


def table(holder: Holder, epoch: int = 5, index: int = 5) -> SlotTable:
    return SlotTable(tuple([SlotRow(row.slot, epoch, index, holder, (holder,)) for row in NO_ROWS]), index)


def test_a_table_that_changes_with_the_log_is_right() -> None:
    history = SlotHistory()
    for each in (SlotTable(), table(A), table(B, 6, 6), table(A, 7, 7)):
        assert [*history.judge("n1", each, VIEW), *history.judge("n2", each, VIEW)] == []


def test_two_tables_of_one_entry() -> None:
    history = SlotHistory()
    assert list(history.judge("n1", table(A), VIEW)) == []
    assert next(iter(history.judge("n2", table(B), VIEW))) == "slots: n1 and n2 have different tables after entry 5"


def test_two_primaries_in_one_epoch() -> None:
    history = SlotHistory()
    assert list(history.judge("n1", table(A), VIEW)) == []
    (text,) = history.judge("n1", table(B, 5, 6), VIEW)
    assert text.startswith("slots: slot 0 has two primaries in epoch 5")


def test_a_deputy_and_a_primary_in_one_epoch() -> None:
    history = SlotHistory()
    assert list(history.judge("n1", table(A), VIEW)) == []
    rows = [SlotRow(row.slot, 5, 6, None, (), B) for row in NO_ROWS]
    (text,) = history.judge("n1", SlotTable(tuple(rows), 6), VIEW)
    assert text.startswith("slots: slot 0 has two primaries in epoch 5")


def test_a_former_incarnation_as_deputy() -> None:
    rows = [SlotRow(row.slot, 6, 6, None, (), B) for row in NO_ROWS]
    (text,) = SlotHistory().judge("n1", SlotTable(tuple(rows), 6), {"a": A})
    assert text.startswith("slots: n1 has a holder of slot 0 that is not in its view")


def test_a_former_incarnation() -> None:
    (text,) = SlotHistory().judge("n1", table(A), {"a": Holder("a", "d", 4)})
    assert text.startswith("slots: n1 has a holder of slot 0 that is not in its view")


def test_rows_that_were_right_are_judged_again_in_another_view() -> None:
    history, same = SlotHistory(), table(A)
    assert list(history.judge("n1", same, VIEW)) == []
    (text,) = history.judge("n1", SlotTable(same.rows, 6), {"a": Holder("a", "d", 4)})
    assert text.startswith("slots: n1 has a holder of slot 0 that is not in its view")


def test_rows_behind_a_wrong_one_are_judged_with_the_next_table() -> None:
    history, right = SlotHistory(), table(A).rows
    stranger = Holder("c", "f", 3)
    wrong = [SlotRow(slot, 5, 5, stranger, (stranger,)) for slot in (0, 9)]
    both = (wrong[0], *right[1:9], wrong[1], *right[10:])
    (text,) = history.judge("n1", SlotTable(both, 5), VIEW)
    assert text.startswith("slots: n1 has a holder of slot 0 ")
    (text,) = history.judge("n1", SlotTable((right[0], *both[1:]), 6), VIEW)
    assert text.startswith("slots: n1 has a holder of slot 9 ")


def test_a_slot_is_given_up_only_with_the_disks_of_its_in_sync_set() -> None:
    both = SlotTable(tuple([SlotRow(row.slot, 5, 5, A, (A, B)) for row in NO_ROWS]), 5)
    lost = table(Holder("c", "f", 3), 6, 6)
    texts = list(judge_losses(both, lost, {"e", "f", "g"}))
    assert len(texts) == 256 and texts[0] == "slots: slot 0 was given up, and e has it"
    assert list(judge_losses(both, lost, {"f", "g"})) == []


def test_a_slot_with_one_of_its_disks_is_not_given_up() -> None:
    both = SlotTable(tuple([SlotRow(row.slot, 5, 5, A, (A, B)) for row in NO_ROWS]), 5)
    away = SlotTable(tuple([SlotRow(row.slot, 5, 6, None, (Holder("b", "e", 0),)) for row in NO_ROWS]), 6)
    for former, later in ((SlotTable(), table(A)), (both, away), (both, table(B, 6, 6)), (away, table(B, 7, 7))):
        assert list(judge_losses(former, later, {"d", "e"})) == []

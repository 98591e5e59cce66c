"""The slot table: its rows, its compact form, and its summary."""

from __future__ import annotations

import msgspec
import pytest

from strogoff.cluster.identity import SLOTS
from strogoff.cluster.slots.table import Holder, PackedTable, SlotRow, SlotTable, pack, ranges, unpack

NODES = [Holder(f"node-{name}@10.0.0.1", "0123456789abcdef0123456789abcdef", 7) for name in "abc"]


def table() -> SlotTable:
    rows = [SlotRow(slot, 1000 + slot, 2000, NODES[slot % 3], (NODES[slot % 3],)) for slot in range(SLOTS)]
    rows[5] = SlotRow(5, 9, 2001, None, (Holder("d", "disk-d", 0), Holder("e", "disk-e", 0)))
    rows[6] = SlotRow(6, 9, 2001)
    rows[7] = SlotRow(7, 2001, 2001, None, (Holder("d", "disk-d", 0),), Holder("f", "disk-f", 8))
    return SlotTable(tuple(rows), 2001)


def test_before_it_begins_no_slot_has_a_holder() -> None:
    empty = SlotTable()
    assert empty.index == 0 and empty.row(255) == SlotRow(255, 0, 0, None, ())
    assert empty.slots_by_primary == {None: tuple(range(SLOTS))}


def test_each_row_stands_at_the_index_of_its_slot() -> None:
    assert [row.slot for row in table().rows] == list(range(SLOTS))
    assert table().row(4).primary == NODES[1]


def test_slots_by_primary() -> None:
    found = table().slots_by_primary
    assert found[None] == (5, 6, 7) and found[NODES[0].node][:4] == (0, 3, 9, 12)
    assert sum(map(len, found.values())) == SLOTS


def test_the_compact_form_is_small_and_exact() -> None:
    data = msgspec.msgpack.encode(pack(table()))
    assert len(data) < 4096 < len(msgspec.msgpack.encode(table().rows)) // 4
    assert unpack(msgspec.msgpack.decode(data, type=PackedTable)) == table()
    assert unpack(pack(SlotTable())) == SlotTable()


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("rows", ((1, 1, -1, ()),), "1 rows of slots, 256 are expected"),
        ("rows", ((1, 1, -2, ()),) * SLOTS, "slot 0: a holder that is not among the 1"),
        ("rows", ((1, 1, 1, ()),) * SLOTS, "slot 0: a holder that is not among the 1"),
        ("rows", ((1, 1, 0, (0,)),) * 255 + ((1, 1, 0, (1,)),), "slot 255: a holder"),
        ("deputies", {9: 1}, "slot 9: a holder"),
    ],
)
def test_a_wrong_compact_form_is_refused(field: str, value: object, says: str) -> None:
    good = PackedTable(1, (NODES[0],), ((1, 1, 0, (0,)),) * SLOTS)
    with pytest.raises(ValueError, match=says):
        unpack(msgspec.structs.replace(good, **{field: value}))


def test_changes_since_another_table() -> None:
    before, after = SlotTable(), table()
    assert len(after.changes_since(before)) == SLOTS and after.changes_since(after) == ()
    assert after.changes_since(table()) == ()
    one = SlotRow(9, 3000, 3000, NODES[2], (NODES[2],))
    assert SlotTable((*after.rows[:9], one, *after.rows[10:]), 3000).changes_since(after) == (one,)


@pytest.mark.parametrize(
    ("slots", "texts"),
    [
        ((), []),
        ((3,), ["3"]),
        ((1, 0, 2, 9, 255, 254), ["0-2", "9", "254-255"]),
        (range(SLOTS), ["0-255"]),
        ((0, 2), ["0", "2"]),
    ],
)
def test_ranges(slots: range, texts: list[str]) -> None:
    assert ranges(slots) == texts

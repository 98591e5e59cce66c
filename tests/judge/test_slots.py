"""Slots: when they left a node, and when their next primary may have lacked changes."""

from __future__ import annotations

from strogoff.judge.rows import NEVER
from strogoff.judge.slots import Slots


def test_a_slot_leaves_its_node_in_order_or_is_taken() -> None:
    slots = Slots()
    slots.note({"type": "slot.moved", "node": "a", "slot": 7, "hlc": 10})
    slots.note({"type": "slot.taken", "node": "a", "slot": 7, "hlc": 20})
    slots.note({"type": "slot.arrive", "node": "a", "slot": 7, "hlc": 30})
    assert slots.left == {("a", 7): [10, 20]}
    assert slots.taken == {("a", 7): [20]}
    assert [slots.was_moved("a", 7, *between) for between in ((9, 11), (10, 20), (15, 25), (0, 10))] == [
        *(True, False, False, False)
    ]


def test_a_slot_arrives() -> None:
    slots = Slots()
    for stamp in (10, 30):
        slots.note({"type": "slot.arrive", "node": "a", "slot": 7, "hlc": stamp})
    assert [slots.arrived("a", 7, *between) for between in ((9, 40), (10, 40), (30, 40), (10, 30))] == [
        *(10, 30, None, None)
    ]
    assert slots.arrived("b", 7, 0, 40) is None


def test_a_primary_may_lack_changes_from_the_first_row_about_it_on() -> None:
    """Each node says so when it learns of the view."""
    slots = Slots()
    lost = {"type": "slot.loss_possible", "target": "b", "slots": ["3", "7-9"]}
    slots.note({**lost, "node": "a", "hlc": 10, "view": 5})
    slots.note({**lost, "node": "b", "hlc": 20, "view": 5})
    assert [slots.doubtful_after(slot, 9) for slot in (3, 6, 8)] == [10, NEVER, 10]
    assert slots.doubtful_after(8, 10) == NEVER
    slots.note({**lost, "node": "a", "hlc": 30, "view": 6})
    assert slots.doubtful_after(8, 10) == 30


def test_who_has_had_a_slot_since_a_stamp() -> None:
    slots = Slots()
    for node, stamp in (("b", 10), ("a", 30), ("b", 20)):
        slots.note({"type": "slot.arrive", "node": node, "slot": 7, "hlc": stamp})
    slots.note({"type": "slot.arrive", "node": "c", "slot": 8, "hlc": 25})
    assert list(slots.holders("a", 7, 15)) == [("a", 15, 20), ("b", 20, 30), ("a", 30, NEVER)]


def test_where_a_slot_is_on_its_way_to() -> None:
    slots = Slots()
    slots.note({"type": "slot.arrive", "node": "b", "slot": 7, "hlc": 5})
    slots.note({"type": "slot.move", "node": "a", "slot": 7, "target": "b", "hlc": 10})
    slots.note({"type": "slot.move", "node": "a", "slot": 7, "target": "c", "hlc": 20})
    slots.note({"type": "slot.arrive", "node": "c", "slot": 8, "hlc": 25})
    slots.note({"type": "slot.arrive", "node": "c", "slot": 7, "hlc": 30})
    assert [slots.next_home("a", 7, stamp) for stamp in (10, 11, 20, 21, 30, 31)] == ["a", "b", "b", "c", "c", "a"]
    assert slots.next_home("b", 7, 25) == "b" and slots.next_home("a", 8, 25) == "a"
    assert slots.left == {}

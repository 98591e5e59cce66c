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

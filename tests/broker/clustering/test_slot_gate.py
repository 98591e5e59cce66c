"""Which slots of a copy a node takes: those that it has, once, and only when it follows the table of the origin."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.forward_codec import Head
from strogoff.broker.clustering.slot_gate import SlotGate
from strogoff.cluster.links.ports import Refuse
from strogoff.storage import keys
from tests.harness.broker import BrokerHarness


@pytest.fixture
def gate() -> SlotGate:
    made = SlotGate(BrokerHarness().node.env.store, lambda slot: 6 if slot < 10 else None)
    made.table, made.entered = 7, True
    return made


def copy(number: int, *slots: int, table: int = 7) -> Head:
    return Head(3, False, slots, number, table)


def test_a_slot_takes_rising_numbers_of_each_origin(gate: SlotGate) -> None:
    assert gate.fresh("n2", 1, copy(5, 1, 2, 30)) == (1, 2)
    gate.note("n2", 1, copy(5, 1, 2), (1, 2), True)
    assert gate.fresh("n2", 1, copy(5, 1, 2, 3)) == (3,)
    assert gate.fresh("n2", 1, copy(4, 1)) == () and gate.fresh("n2", 1, copy(6, 1)) == (1,)
    assert gate.fresh("n3", 1, copy(4, 1)) == (1,)
    assert gate.fresh("n2", 2, copy(1, 1)) == (1,), "a later boot counts from 1"


def test_a_slot_that_has_come_back_takes_no_copy_from_before(gate: SlotGate) -> None:
    """The copies before it were skipped while the slot was away: its origin sends all of them again."""
    assert gate.fresh("n2", 1, copy(5, 1, table=5)) == () and gate.fresh("n2", 1, copy(5, 1, table=6)) == (1,)


def test_what_a_slot_has_taken_is_stored_with_it(gate: SlotGate) -> None:
    gate.note("n2", 1, copy(5, 1), (1,), True)
    gate.note("n2", 1, copy(6, 1), (1,), False)
    again = SlotGate(gate._store, lambda slot: 0)
    again.load(range(256))
    assert (gate.last(1, "n2"), again.last(1, "n2")) == ((1, 6), (1, 5))
    again.drop(1)
    assert again.last(1, "n2") == (0, 0)
    again.load([1])
    again.forget("n2", 1)
    assert again.last(1, "n2") == (1, 5)
    again.forget("n2", 2)
    assert again.last(1, "n2") == (0, 0) and gate._store.get(keys.taken_key(1, "n2")) is None


def test_a_copy_of_a_later_table_is_held(gate: SlotGate) -> None:
    gate.check(copy(1, 1))
    with pytest.raises(Refuse, match="slot table 8, this node follows table 7"):
        gate.check(copy(1, 1, table=8))


def test_a_process_takes_nothing_for_slots_before_it_has_been_in_a_view(gate: SlotGate) -> None:
    gate.entered = False
    with pytest.raises(Refuse, match="has not been in a view"):
        gate.check(copy(1, 1))


def test_no_copy_is_taken_for_slots_that_another_node_may_get(gate: SlotGate) -> None:
    gate.contested = True
    with pytest.raises(Refuse, match="the next primary of its slots may be another one"):
        gate.check(copy(1, 1))


def test_a_copy_for_a_slot_that_is_moving_is_held(gate: SlotGate) -> None:
    gate.sealed.add(2)
    gate.check(copy(1, 1, 3))
    with pytest.raises(Refuse, match="slot 2 is not read yet"):
        gate.check(copy(1, 1, 2))


def test_an_answer_names_the_highest_table_that_any_process_followed(gate: SlotGate) -> None:
    gate.noted = 9
    assert gate.applied == 9
    gate.table = 12
    assert gate.applied == 12


def test_a_slot_whose_sessions_are_not_open_here_takes_no_copy(gate: SlotGate) -> None:
    """One that is at another node by the table skips it: that node gets a copy from the origin."""
    closed = {2, 30}
    shut = SlotGate(gate._store, lambda slot: 6 if slot < 10 else None, closed)
    shut.table, shut.entered = 7, True
    shut.check(copy(5, 1, 30))
    with pytest.raises(Refuse, match="slot 2 is not open here"):
        shut.check(copy(5, 1, 2, 30))
    closed.discard(2)
    shut.check(copy(5, 1, 2, 30))

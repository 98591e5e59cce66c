"""Which slots move so that the primaries are spread again: each at most once for a view, straight to its place."""

from __future__ import annotations

import random

import pytest

from strogoff.cluster.identity import SLOTS
from strogoff.cluster.slots.balance import lacking_copies, may_move
from strogoff.cluster.slots.handover import first_wanted, misplaced
from strogoff.cluster.slots.table import NO_ROWS, Holder, SlotRow, SlotTable

HOLDERS = {node: Holder(node, f"disk-{node}", view) for view, node in enumerate("abcde", 1)}
A, B = HOLDERS["a"], HOLDERS["b"]


def test_a_slot_may_move_if_it_has_not_moved_since_the_view_changed() -> None:
    rows = list(NO_ROWS)
    for slot, epoch in {1: 9, 2: 10, 3: 11}.items():
        rows[slot] = SlotRow(slot, epoch, 12, A, (A,))
    table = SlotTable(tuple(rows), 12)
    assert may_move({1: "b", 2: "b", 3: "b"}, table, 10) == {1: "b", 2: "b"}
    assert may_move({}, table, 10) == {}


def test_a_slot_without_primary_or_with_few_holders_lacks_copies() -> None:
    rows = [SlotRow(row.slot, 1, 1, A, (A, B)) for row in NO_ROWS]
    assert lacking_copies(SlotTable(tuple(rows), 1), 2) == []
    rows[3] = SlotRow(3, 1, 1, A, (A,))
    rows[5] = SlotRow(5, 1, 1, None, (A, B))
    table = SlotTable(tuple(rows), 1)
    assert lacking_copies(table, 2) == [3, 5]
    assert lacking_copies(table, 1) == [5]


class Model:
    """A table whose slots move as the primaries want it, one each in a round, in a random order."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.nodes = list("abcde")[: rng.randint(2, 5)]
        self.index = 1
        self.rows = [self.row(row.slot, rng.choice(self.nodes)) for row in NO_ROWS]
        self.moves: list[tuple[int, str]] = []
        self.by_hand: set[int] = set()
        self.change(*self.nodes)

    def row(self, slot: int, node: str) -> SlotRow:
        holder = HOLDERS[node]
        return SlotRow(slot, self.index, self.index, holder, (holder,))

    def change(self, *nodes: str) -> None:
        """Another view; the slots of a node that is not in it are at other ones."""
        self.index += 1
        self.since = self.index
        self.serving = nodes
        self.zones = {node: self.rng.choice("xyz") for node in nodes}
        self.by_hand.clear()
        for slot, row in enumerate(self.rows):
            assert row.primary is not None
            if row.primary.node not in nodes:
                self.rows[slot] = self.row(slot, self.rng.choice(nodes))

    def wanted(self, node: str) -> dict[int, str]:
        table = SlotTable(tuple(self.rows), self.index)
        return may_move(misplaced(table, HOLDERS[node], self.zones), table, self.since)

    def round(self) -> bool:
        """Each primary moves one slot. Returns False if none wants to."""
        moved = False
        for node in self.rng.sample(self.serving, len(self.serving)):
            found = self.wanted(node)
            if found:
                slot = self.rng.choice(sorted(found))
                self.move(slot, found[slot])
                self.moves.append((slot, found[slot]))
                moved = True
        return moved

    def move(self, slot: int, node: str) -> None:
        self.index += 1
        self.rows[slot] = self.row(slot, node)

    def operate(self) -> None:
        """An operator moves some slot somewhere."""
        slot = self.rng.randrange(SLOTS)
        self.move(slot, self.rng.choice(self.serving))
        self.by_hand.add(slot)

    def elsewhere(self) -> set[int]:
        """The slots that are not in their places."""
        return {
            slot
            for slot, row in enumerate(self.rows)
            if row.primary is None or row.primary.node != first_wanted(slot, self.zones)
        }


@pytest.mark.parametrize("seed", range(25))
def test_each_slot_moves_at_most_once_for_a_view_and_all_end_in_place(seed: int) -> None:
    model = Model(seed)
    for _ in range(3):
        due = len(model.elsewhere())
        model.moves.clear()
        rounds = 0
        while model.round():
            rounds += 1
            if model.rng.random() < 0.2:
                model.operate()
        slots = [slot for slot, _ in model.moves]
        assert len(slots) == len(set(slots)) <= due, "no slot moves twice"
        assert rounds <= due and not model.round()
        assert model.elsewhere() <= model.by_hand, "a slot that an operator has moved stays"
        model.change(*model.rng.sample(model.nodes, model.rng.randint(1, len(model.nodes))))


def test_the_placement_spreads_the_slots() -> None:
    for count in range(2, 6):
        zones = {f"VerneMQ@10.0.0.{number}": "z" for number in range(count)}
        places = [first_wanted(slot, zones) for slot in range(SLOTS)]
        share = SLOTS / count
        assert all(0.7 * share < places.count(node) < 1.35 * share for node in zones)

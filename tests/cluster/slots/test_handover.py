"""The handover of empty slots: which requests a primary makes, and when it may open a slot again (H-40)."""

from __future__ import annotations

import random

import pytest

from strogoff.cluster.identity import SLOTS
from strogoff.cluster.slots.handover import Handover, misplaced
from strogoff.cluster.slots.placement import wanted
from strogoff.cluster.slots.table import NO_ROWS, Holder, SlotRow, SlotTable
from strogoff.cluster.slots.update import Roll, TableUpdate

A, B, C = (Holder(node, f"disk-{node}", view) for node, view in (("a", 1), ("b", 2), ("c", 2)))
PRESENT = {"a": A, "b": B, "c": C}


def table(*in_sync: Holder, version: int = 10) -> SlotTable:
    return SlotTable(tuple([SlotRow(row.slot, 10, version, in_sync[0], in_sync) for row in NO_ROWS]), version)


def closed(slot: int = 7) -> Handover:
    handover = Handover()
    handover.close(table(A).row(slot), B)
    return handover


def test_slots_that_belong_elsewhere() -> None:
    zones = {"a": "a", "b": "b", "c": "c"}
    found = misplaced(table(A), A, zones)
    assert found == {slot: wanted(slot, zones, 1)[0] for slot in range(SLOTS) if wanted(slot, zones, 1)[0] != "a"}
    assert 150 < len(found) < 190


def test_a_slot_with_a_copy_is_misplaced_but_not_one_of_another_process() -> None:
    zones = {"a": "a", "b": "b"}
    assert misplaced(table(A, B), A, zones) == misplaced(table(A), A, zones) != {}
    assert misplaced(table(A), Holder("a", "disk-a", 5), zones) == {}
    assert misplaced(table(A), A, {"a": "a"}) == {}


def test_first_the_target_is_in_sync_then_it_is_primary() -> None:
    handover = closed()
    assert handover.requests() == [SlotRow(7, 10, 10, A, (A, B))]
    assert handover.follow(table(A), A, PRESENT) == [] and handover.requests() == [SlotRow(7, 10, 10, A, (A, B))]
    assert handover.follow(table(A, B, version=11), A, PRESENT) == []
    assert handover.requests() == [SlotRow(7, 10, 11, B, (B,))]
    assert handover.follow(table(B, version=12), A, PRESENT) == [] and handover.requests() == []


def test_a_follower_that_is_the_target_is_asked_to_be_primary_at_once() -> None:
    handover = Handover()
    handover.close(table(A, B, C).row(7), C)
    assert handover.requests() == [SlotRow(7, 10, 10, C, (C,))]
    assert handover.follow(table(A, B, C), A, PRESENT) == [] and handover.requests() == [SlotRow(7, 10, 10, C, (C,))]
    assert handover.follow(table(C, version=12), A, PRESENT) == [] and handover.requests() == []


def test_a_follower_that_is_not_the_target_gets_nothing() -> None:
    handover = Handover()
    handover.close(table(A, C).row(7), B)
    assert handover.requests() == [SlotRow(7, 10, 10, A, (A, C, B))]
    assert handover.follow(table(A, C), A, PRESENT) == [] and handover.requests() == [SlotRow(7, 10, 10, A, (A, C, B))]
    assert handover.follow(table(A, B, C, version=11), A, PRESENT) == []
    assert handover.requests() == [SlotRow(7, 10, 11, B, (B,))]
    assert handover.follow(table(A, B, version=12), A, PRESENT) == []
    assert handover.requests() == [SlotRow(7, 10, 12, B, (B,))]
    assert handover.follow(table(A, version=13), A, PRESENT) == [7] and not handover.closed


def test_a_slot_opens_again_when_its_row_has_changed() -> None:
    handover = closed()
    assert handover.follow(table(A, version=11), A, PRESENT) == [7] and not handover.closed


def test_a_slot_opens_again_when_its_target_has_left() -> None:
    handover = closed()
    again = Holder("b", "disk-b", 9)
    assert handover.follow(table(A), A, {"a": A, "b": again}) == [7] and not handover.closed


def test_a_primary_that_leaves_the_view_has_nothing_to_hand_over() -> None:
    handover = closed()
    assert handover.follow(table(A), None, {"b": B}) == [] and not handover.closed
    handover = closed()
    assert handover.follow(table(Holder("a", "disk-a", 5)), A, PRESENT) == [] and not handover.closed


class World:
    """One slot, a primary that applies the log late, and requests that are late, lost and repeated.

    Node b is the target. At times node c has a copy of the slot, with the session.
    """

    def __init__(self, seed: int, handover: Handover) -> None:
        self.rng = random.Random(seed)
        self.handover = handover
        self.present = dict(PRESENT)
        self.log = [(SlotTable((SlotRow(0, 1, 1, A, (A,)), *NO_ROWS[1:]), 1), dict(self.present))]
        self.applied = 0
        self.session = False
        self.requests: list[SlotRow] = []
        self.view = 2
        self.given = 0

    def entry(self, change: SlotRow | None, leaving: str = "") -> None:
        before = self.log[-1][0]
        disks = {(node, f"disk-{node}") for node in PRESENT}
        update = TableUpdate(before, Roll(dict(self.present), tuple(self.present), disks), len(self.log) + 1)
        if change is None:
            update.follow()
        else:
            update.change((change,), leaving)
        self.log.append((update.table, dict(self.present)))
        primary = update.table.row(0).primary
        if primary is not None and primary.node == "b":
            assert not self.session, "b is primary without the session that began at a"
            self.given += 1

    def own(self) -> Holder | None:
        return self.log[self.applied][1].get("a")

    def row(self) -> SlotRow:
        return self.log[self.applied][0].row(0)

    def step(self) -> None:
        """One random event."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.4:
            if self.applied < len(self.log) - 1:
                self.applied += 1
                self.handover.follow(*self._follows())
        elif kind < 0.44:
            name = rng.choice("bbbca")
            self.view += 1
            if self.present.pop(name, None) is None:
                self.present[name] = Holder(name, f"disk-{name}", self.view)
            self.entry(None)
        elif kind < 0.55:
            self.requests += self.handover.requests()
        elif kind < 0.7 and self.requests:
            self.entry(self.requests[-rng.randint(1, min(3, len(self.requests)))])  # it may come again
        elif kind < 0.9:
            target = self.log[self.applied][1].get("b")
            if target is not None and self._runs() and not self.session:
                self.handover.close(self.row(), target)
        elif kind < 0.92 and self._runs():
            self.session = True
        else:
            self._copy()

    def _copy(self) -> None:
        """The primary adds c, or c takes itself out."""
        row, copy = self.row(), self.log[self.applied][1].get("c")
        if copy is not None and row.primary is not None and row.primary == self.own():
            if copy in row.in_sync:
                rest = tuple([holder for holder in row.in_sync if holder != copy])
                self.entry(SlotRow(0, row.epoch, row.version, row.primary, rest), "c")
            else:
                self.requests.append(SlotRow(0, row.epoch, row.version, row.primary, (*row.in_sync, copy)))

    def _follows(self) -> tuple[SlotTable, Holder | None, dict[str, Holder]]:
        found, present = self.log[self.applied]
        return found, self.own(), present

    def _runs(self) -> bool:
        own = self.own()
        return own is not None and self.row().primary == own and 0 not in self.handover.closed


def walk(handover: type[Handover], seeds: int) -> list[World]:
    """Make so many histories. Fails at the first one that breaks the rule."""
    worlds = [World(seed, handover()) for seed in range(seeds)]
    for world in worlds:
        for _ in range(150):
            world.step()
    return worlds


@pytest.mark.slow
def test_no_session_begins_in_a_slot_that_may_still_go() -> None:
    worlds = walk(Handover, 400)
    assert sum(world.given > 0 for world in worlds) > 50 and sum(world.session for world in worlds) > 50


class OpensWithoutAnAnswer(Handover):
    """Opens a slot as soon as the request for it was not accepted at once."""

    def follow(self, table: SlotTable, own: Holder | None, present: object) -> list[int]:
        return super().follow(table, own, {})


class OpensBesideTheTarget(Handover):
    """Opens a slot although its target is in sync."""

    def follow(self, table: SlotTable, own: Holder | None, present: object) -> list[int]:
        for slot, asked in list(self.closed.items()):
            if table.row(slot).version > asked.version:
                del self.closed[slot]
        return []


@pytest.mark.parametrize("plant", [OpensWithoutAnAnswer, OpensBesideTheTarget])
def test_a_planted_mistake_is_found(plant: type[Handover]) -> None:
    with pytest.raises(AssertionError, match="b is primary without the session"):
        walk(plant, 400)

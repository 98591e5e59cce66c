"""A node that leaves gives its slots away, one after the other, and says why one stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from strogoff.broker.clustering import slot_evacuation
from strogoff.broker.clustering.slot_evacuation import SlotEvacuation
from strogoff.cluster.membership.commands import Join, Row, Settle, SetView, encode_command
from strogoff.cluster.membership.state_machine import MembershipState
from strogoff.cluster.slots.placement import wanted


class Leaver:
    """A node with slots; the test decides how each move ends."""

    def __init__(self, membership: MembershipState, slots: set[int]) -> None:
        self.slots = slots
        self.moves: list[tuple[int, str]] = []
        self.stay: dict[int, list[str]] = {}
        self.full: tuple[str, ...] = ()
        self.evacuation = SlotEvacuation(
            "n1", lambda: membership, self.empty, lambda: len(self.slots), self.begin, lambda: self.full
        )

    def empty(self, slots: Collection[int]) -> list[int]:
        return [slot for slot in slots if slot not in self.slots]

    def begin(self, slot: int, target: str, done: Callable[[str], None]) -> None:
        assert slot in self.slots
        self.moves.append((slot, target))
        reasons = self.stay.get(slot, [])
        if reasons:
            done(reasons.pop(0))
        else:
            self.slots.discard(slot)
            asyncio.get_running_loop().call_soon(done, "")

    def run(self, limit_s: float = 10) -> None:
        asyncio.run(asyncio.wait_for(self.evacuation.run(limit_s), 20))


def leaver(slots: set[int], *others: str) -> Leaver:
    """Node n1, primary of all slots, with sessions in some of them, and other nodes that serve."""
    membership = MembershipState()
    commands: list[Settle | Join | SetView] = [Settle("id", "n1", "disk-n1", 1, "p", "", slots=True)]
    commands += [Join(each, f"disk-{each}", 1, "p", "") for each in others]
    for serving in (False, True):
        rows = [Row("n1", 1, 1, True), *[Row(each, 1, 2, serving) for each in others]]
        commands.append(SetView(2 if serving else 1, tuple(rows)))
    for index, command in enumerate(commands, 1):
        membership.apply(index, encode_command(command))
    return Leaver(membership, slots)


def test_each_slot_with_sessions_goes_where_the_placement_wants_it_without_this_node() -> None:
    node = leaver({3, 17, 200}, "n2", "n3")
    node.run()
    others = {"n2": "", "n3": ""}
    assert node.moves == [(slot, wanted(slot, others, 1)[0]) for slot in (3, 17, 200)]
    assert node.evacuation.moved == 3 and node.evacuation.remaining() == []
    assert node.evacuation.progress == "n1 gives its sessions away: 3 slots have moved, 0 remain"


def test_a_slot_that_stays_is_tried_again_after_the_others(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(slot_evacuation, "PAUSE_S", 0.001)
    node = leaver({3, 17}, "n2")
    node.stay[3] = ["slot 3 stays: busy", "slot 3 stays: busy"]
    node.run()
    assert [slot for slot, _ in node.moves] == [3, 17, 3, 3]
    assert node.slots == set()


def test_it_stops_when_the_time_is_over_and_says_why_a_slot_stays(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(slot_evacuation, "PAUSE_S", 0.001)
    node = leaver({3}, "n2")
    node.stay[3] = ["slot 3 stays: busy"] * 10_000
    node.run(0.02)
    assert node.slots == {3}
    assert node.evacuation.progress.endswith("0 slots have moved, 1 remain (slot 3 stays: busy)")


def test_it_stops_when_no_other_node_serves() -> None:
    node = leaver({3})
    node.run()
    assert node.moves == [] and node.evacuation.problem == "no other node serves, or those that do take no slots"


def test_no_slot_goes_to_a_node_that_leaves_as_well() -> None:
    node = leaver({3, 17, 200}, "n2", "n3")
    node.full = ("n2",)
    node.run()
    assert [target for _, target in node.moves] == ["n3"] * 3
    node = leaver({3}, "n2")
    node.full = ("n2",)
    node.run()
    assert node.moves == [] and node.evacuation.problem == "no other node serves, or those that do take no slots"


def test_without_sessions_nothing_moves() -> None:
    node = leaver(set(), "n2")
    node.run()
    assert node.moves == []

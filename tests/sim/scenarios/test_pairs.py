"""Pairs of faults, the second one behind a step of the repair after the first one."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.slot_copies import SlotCopies
from strogoff.sim.scenarios.pairs import FAULTS, FILL_S, PAIRS, Pair, pairs, repair, run_pair
from strogoff.sim.scenarios.steps import AT_S, BEHIND_S, fault_at

from ...harness.thinning import thinned

NODES = ("n1", "n2", "n3")


@pytest.mark.slow
def test_the_steps_of_a_repair() -> None:
    """The same at each call. The follower of a primary that is cut off takes over first."""
    first = fault_at(AT_S, "cut {node} | {others}", "n2", NODES)
    found = repair("qos1", 0, first)
    assert found == repair("qos1", 0, first) == sorted(set(found)) and 15 < len(found) < 60
    assert found[0] > AT_S + 1.9 and found[-1] < AT_S + FILL_S + 0.1


def test_a_fault_that_costs_no_copy_has_no_repair() -> None:
    """At most the repair of the node itself."""
    assert repair("qos1", 0, fault_at(AT_S, "pause {node} 0.1s", "n1", NODES)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned(PAIRS, 2, pytest.mark.by_hand))
def test_some_pairs_of_each_protocol(name: str) -> None:
    """`strogoff sim --pairs` runs all of them."""
    every = list(pairs(name, 1, 12))
    assert {each.role for each in every} == {"primary", "follower"}
    assert {each.first.fault.word for each in every} == {text.split()[0] for text in FAULTS}
    assert {(each.second.fault.word, each.second.fault.nodes[0]) for each in every} == {
        (text.split()[0], node) for text in FAULTS[1:] for node in NODES
    }
    assert len(set(every)) == len(every)
    for case in every[5::120]:
        outcome = run_pair(case)
        assert outcome.violations == (), str(case)
        assert outcome.messages and outcome.faults >= 2


@pytest.mark.slow
def test_the_second_fault_begins_behind_its_step() -> None:
    first = fault_at(AT_S, "cut {node} | {others}", "n2", NODES)
    when = repair("away", 0, first)[9]
    case = Pair("away", 0, 9, "primary", first, fault_at(when, "fast_restart {node}", "n3", NODES))
    assert case.second.at_s == pytest.approx(when + BEHIND_S, abs=1e-12)
    assert str(case).startswith(f"away, seed 0, step 9: {first} (primary), then at ")
    outcome = run_pair(case, trace=True)
    assert outcome.violations == () and outcome.messages
    faults = [line for line in outcome.lines if " FAULT " in line]
    first_s, second_s = (next(float(line.split()[0]) for line in faults if text in line) for text in ("cut n2", "t n3"))
    assert second_s - first_s == pytest.approx(case.second.at_s - first.at_s, abs=1e-5)


@pytest.mark.slow
def test_a_follower_that_keeps_deleted_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody needs the copy here. The comparison with its primary finds the rows."""
    apply = SlotCopies._apply

    def keeps(self: SlotCopies, key: bytes, value: bytes | None) -> None:
        if value is not None:
            apply(self, key, value)

    monkeypatch.setattr(SlotCopies, "_apply", keeps)
    case = Pair("qos1", 0, 0, "follower", fault_at(AT_S, FAULTS[1], "n3", NODES), fault_at(9.5, FAULTS[1], "n3", NODES))
    assert any("of a copy of slot" in text and "were wrong" in text for text in run_pair(case).violations)

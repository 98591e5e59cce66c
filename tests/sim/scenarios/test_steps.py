"""Protocols, their steps, and a fault behind a step."""

from __future__ import annotations

import pytest

from strogoff.broker.queues.durable_queue import DurableQueue
from strogoff.sim.scenarios.steps import AT_S, BEHIND_S, FOR_S, PROTOCOLS, cases, run_case, steps
from strogoff.sim.simulation import ClusterSimulation
from tests.harness.thinning import thinned


@pytest.mark.parametrize("name", thinned(PROTOCOLS, 3))
def test_a_protocol_has_steps_and_cases(name: str) -> None:
    """The same at each call; for each step every node is killed, paused and cut off."""
    found = steps(name, 0)
    assert found == steps(name, 0) == sorted(set(found)) and len(found) > 50
    assert found[0] >= AT_S and found[-1] < AT_S + FOR_S + 0.1
    every = list(cases(name, 0, 10))
    assert len(every) == 9 * len(found[::10])
    assert {str(each.fault.fault) for each in every[:9]} == {
        *(f"fast_restart n{n}" for n in (1, 2, 3)),
        *(f"pause n{n} 3s" for n in (1, 2, 3)),
        *("cut n1 | n2 n3", "cut n2 | n1 n3", "cut n3 | n1 n2"),
    }
    assert every[9].number == 10 and every[9].fault.at_s == pytest.approx(found[10] + BEHIND_S, abs=1e-12)


@pytest.mark.parametrize("name", thinned(PROTOCOLS, 10))
def test_some_cases_of_each_protocol(name: str) -> None:
    """`strogoff sim --steps` runs all of them."""
    for case in list(cases(name, 1, 40))[::20]:
        outcome = run_case(case)
        assert outcome.violations == (), str(case)
        assert outcome.messages and outcome.faults == 1


def test_the_fault_begins_behind_its_step() -> None:
    case = list(cases("qos1", 0, 25))[12]
    lines = run_case(case, trace=True).lines
    (fault,) = [line for line in lines if "FAULT" in line and str(case.fault.fault) in line and " for " not in line][:1]
    begin_s = float(fault.split()[0]) - case.fault.at_s
    assert 0 < begin_s < 60
    assert str(case) == f"qos1, seed 0, step {case.number}: {case.fault}"


def test_an_exception_in_the_node_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: ClusterSimulation) -> None:
        raise ValueError("no good")

    case = next(cases("qos1", 0))
    monkeypatch.setattr(ClusterSimulation, "run", broken)
    (text,) = run_case(case).violations
    assert text.startswith("crash: ValueError: no good, at ") and text.endswith("in broken")


@pytest.mark.slow
def test_a_message_in_flight_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault between a PUBLISH and its PUBACK shows it."""
    detach = DurableQueue.detach

    def forgets(self: DurableQueue) -> None:
        self.inflight.clear()
        detach(self)

    monkeypatch.setattr(DurableQueue, "detach", forgets)
    killed = [case for case in cases("qos1", 0, 6) if str(case.fault.fault) == "fast_restart n1"]
    found = [run_case(case).violations for case in killed]
    lost = [each for each in found if any("lost" in text for text in each)]
    assert 0 < len(lost) < len(killed)

"""Plans of seeds for several nodes."""

from __future__ import annotations

from strogoff.sim.cluster_plan import KINDS, STOP, plan
from strogoff.sim.faults.schedule import FaultSchedule


def test_the_same_seed_is_the_same_plan() -> None:
    assert plan(7, 3) == plan(7, 3) and plan(7, 3) != plan(8, 3) and plan(7, 3) != plan(7, 5)


def test_every_kind_and_policy_comes_and_scenarios_are_read_back() -> None:
    plans = [plan(seed, 3) for seed in range(300)]
    kinds = {step.fault.word for each in plans for step in each.schedule.steps} | {STOP for each in plans if each.stops}
    assert kinds == set(KINDS)
    assert all(FaultSchedule.parse(str(each.schedule)) == each.schedule for each in plans)
    for operation in ("register", "publish", "subscribe", "unsubscribe"):
        flags = {getattr(each.swarm.options, f"allow_{operation}_during_netsplit") for each in plans}
        assert flags == {"off", "majority", "on"}
    assert any(each.late for each in plans) and any(each.roaming for each in plans)
    assert all(abs(rate - 1) < 0.05 for each in plans for rate in each.rates)


def test_kinds_can_be_chosen() -> None:
    assert not plan(1, 3, kinds=()).schedule.steps
    words = {step.fault.word for seed in range(20) for step in plan(seed, 3, kinds=("kill", "cut")).schedule.steps}
    assert words == {"kill", "cut"}

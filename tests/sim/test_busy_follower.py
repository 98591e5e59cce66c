"""A follower with a slow disk holds up its primaries until another node takes its place."""

from __future__ import annotations

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.cluster.slots.table import SlotRow
from strogoff.sim.cluster_plan import ClusterPlan
from strogoff.sim.runner import RunOptions, run_seed
from strogoff.sim.scenarios.catalogue import SCENARIOS
from strogoff.sim.simulation import ClusterSimulation
from strogoff.sim.variants import COPIES, vary

SCENARIO = SCENARIOS["busy-follower"]
BUSY_AFTER_S = 3.0


def _plan(seed: int) -> ClusterPlan:
    return vary(SCENARIO.plan(seed, 3, None, 25.0), (COPIES,))


def _row(simulation: ClusterSimulation) -> SlotRow:
    tables = [machine.member.slots for machine in simulation.world.machines.values() if machine.member is not None]
    return max(tables, key=lambda table: table.index).row(slot_of("", "c0"))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_acknowledgements_are_quick_again_when_the_follower_is_replaced(seed: int) -> None:
    simulation = ClusterSimulation(_plan(seed), script=SCENARIO.begin)
    simulation.begin()
    loop = simulation.world.loop
    loop.run_for(5.0)
    begin_s = loop.now_s
    simulation.begin_faults()
    loop.run_for(BUSY_AFTER_S)
    primary = _row(simulation).primary
    (busy,) = [holder for holder in _row(simulation).in_sync if holder != primary]
    loop.run_for(15.0)
    assert busy not in _row(simulation).in_sync and len(_row(simulation).in_sync) == 2
    assert primary == _row(simulation).primary
    acked = [each for each in simulation.world.history.attempts.values() if each.acked_at]
    held = [each.acked_at - each.sent_at for each in acked if 3.0 < each.sent_at - begin_s < 8.0]
    after = [each.acked_at - each.sent_at for each in acked if each.sent_at - begin_s > 15.0]
    assert max(held) > 0.5 and len(after) > 20 and max(after) < 0.45
    assert simulation.problems == ()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_all_promises_are_kept_meanwhile(seed: int) -> None:
    outcome = run_seed(seed, RunOptions(nodes=3, scenario="busy-follower", variants=(COPIES,), seconds=25.0))
    assert outcome.violations == ()

"""All scenarios, and that a broker without a bug keeps its promises in them."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.forward_sender import ForwardSender
from strogoff.broker.clustering.outstanding_forward import OutstandingForward
from strogoff.sim.planted_bugs.cluster_bugs import CLUSTER_BUGS
from strogoff.sim.runner import RunOptions, run_seed
from strogoff.sim.scenarios.catalogue import SCENARIOS
from tests.harness.thinning import thinned

OWN = sorted(set(SCENARIOS) - set(CLUSTER_BUGS))


@pytest.mark.parametrize("name", thinned(OWN, 3))
def test_without_a_bug_there_is_no_violation(name: str) -> None:
    outcome = run_seed(0, RunOptions(nodes=3, scenario=name))
    assert outcome.violations == () and outcome.clients >= 3


def test_a_planted_bug_has_a_scenario_without_it() -> None:
    assert set(CLUSTER_BUGS) < set(SCENARIOS)
    assert run_seed(0, RunOptions(nodes=3, bug="guard-off")).violations
    assert run_seed(0, RunOptions(nodes=3, scenario="guard-off")).violations == ()


def test_a_copy_that_is_dropped_while_its_node_is_away_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    away = ForwardSender.away

    def forgetful(self: ForwardSender, name: str) -> bool:
        for copy in self._under_way.get(name, ()):
            assert isinstance(copy, OutstandingForward)
            copy.slots = ()
        return away(self, name)

    monkeypatch.setattr(ForwardSender, "away", forgetful)
    assert any(text.startswith("lost: ") for text in run_seed(0, RunOptions(nodes=3, scenario="away")).violations)

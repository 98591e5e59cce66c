"""The judges find a planted bug in the event log of the run that shows it, or the table says why not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from strogoff.sim.audit import Audit
from strogoff.sim.planted_bugs.cluster_bugs import CLUSTER_BUGS
from strogoff.sim.planted_bugs.in_the_log import HIDDEN, SHOWN
from strogoff.sim.planted_bugs.node_bugs import NODE_BUGS
from strogoff.sim.runner import RunOptions, run_seed

QUICK = ("ack-before-commit", "newest-first", "subscriptions-lost", "old-connection-kept")
SLOW = pytest.mark.slow


RUNS = 4
"""A run may show a bug in another way than by what the log has, for example by a row that is left on a disk."""


def of_the_runs(name: str) -> Iterator[Audit]:
    """The audits of the first runs with a violation."""
    seeds = NODE_BUGS[name].seeds if name in NODE_BUGS else CLUSTER_BUGS[name].seeds
    outcomes = (run_seed(seed, RunOptions(bug=name, audit=True)) for seed in range(seeds))
    shown = False
    for outcome in islice((each for each in outcomes if each.violations), RUNS):
        assert outcome.audit is not None
        shown = True
        yield outcome.audit
    assert shown, f"{name} was not found within {seeds} seeds"


def test_each_bug_is_in_one_of_the_tables() -> None:
    assert not SHOWN.keys() & HIDDEN.keys()
    assert {*SHOWN, *HIDDEN} == {*NODE_BUGS, *CLUSTER_BUGS} and {*QUICK} <= {*SHOWN}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in QUICK else [SLOW]) for name in SHOWN])
def test_a_bug_is_found_in_the_log(name: str) -> None:
    wanted = {*SHOWN[name].split(", ")}
    assert any(wanted & {kind.split(" ")[0] for kind in audit.findings} for audit in of_the_runs(name))


@pytest.mark.parametrize("name", [pytest.param(name, marks=[SLOW]) for name in HIDDEN])
def test_a_bug_that_is_said_to_be_hidden_is_not_found(name: str) -> None:
    """Once a judge finds it, it belongs into the other table."""
    assert next(of_the_runs(name)).findings == {}

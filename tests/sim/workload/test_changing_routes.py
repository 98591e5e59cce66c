"""Clients whose routes change all the time."""

from __future__ import annotations

from functools import partial

import pytest

from strogoff.broker.clustering.adapter import ClusterAdapter
from strogoff.cluster.node import ClusterNode
from strogoff.sim.cluster_plan import plan
from strogoff.sim.runner import WORKLOADS, RunOptions, run_seed
from strogoff.sim.simulation import ClusterSimulation
from strogoff.sim.workload.changing_routes import with_changing_routes
from strogoff.sim.workload.swarm import WATCHER


def test_every_node_has_one_reader_at_most_and_the_rest_of_the_plan_is_the_same() -> None:
    for seed in range(20):
        drawn = plan(seed, 3)
        found = with_changing_routes(drawn)
        assert found == WORKLOADS["routes"](plan(seed, 3)) and found.schedule == drawn.schedule
        readers = [each.name for each in found.swarm.clients if each.filters and each.name != WATCHER]
        assert len({found.homes[name] for name in readers}) == len(readers) > 0


def test_a_suback_promises_messages_published_at_that_moment() -> None:
    simulation = ClusterSimulation(with_changing_routes(plan(7, 3, "sync", 5.0, ())))
    world = simulation.world
    assert simulation.run().violations == ()
    granted = [each for each in world.history.subscriptions if each.filter != "w/#" and each.granted_at]
    sent = {round(each.sent_at, 6) for each in world.history.attempts.values()}
    assert len(granted) > 4
    assert any(round(each.granted_at, 6) in sent for each in granted)


@pytest.mark.slow
def test_plans_that_learn_of_a_route_too_late_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A route reaches another node 20 ms after its acknowledgement: the next publish finds no subscriber."""
    bind = ClusterAdapter.bind

    def late(self: ClusterAdapter, member: ClusterNode) -> None:
        bind(self, member)
        changed = self.routes.changed.pop()

        def tell_late(mountpoint: str, text: str) -> None:
            member.ports.later(0.02, partial(changed, mountpoint, text))

        self.routes.changed.append(tell_late)

    monkeypatch.setattr(ClusterAdapter, "bind", late)
    outcomes = (run_seed(seed, RunOptions(nodes=3, workload="routes")) for seed in range(5))
    assert any(text.startswith("lost: ") for each in outcomes for text in each.violations)

"""Variants: sparse subscribers, small limits, narrow links, a node that leaves, and others."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from strogoff.broker.clustering import copy_check, late_changes, slot_comparison, slot_filling, slot_leftovers
from strogoff.broker.gateway.relayed_transport import RelayedTransport
from strogoff.cluster.membership.consensus import Consensus
from strogoff.cluster.membership.state_machine import MembershipState
from strogoff.cluster.replicated_map.compaction import Compactor
from strogoff.sim.cluster_plan import USUAL, plan
from strogoff.sim.simulation import ClusterSimulation
from strogoff.sim.variants import (
    COPIES,
    LEAVES,
    MOVES,
    NARROW,
    RATE,
    SLOW_DATA,
    SMALL,
    SPARSE,
    TWIN,
    VARIANTS,
    small_items,
    vary,
)
from strogoff.sim.workload.changing_routes import with_changing_routes


def test_the_seed_decides_and_each_kind_is_there() -> None:
    plans = [vary(plan(seed, 3)) for seed in range(40)]
    assert plans[7] == vary(plan(7, 3))
    has = {
        SPARSE: sum(each.publish_at_suback for each in plans),
        SMALL: sum(each.settings != USUAL for each in plans),
        NARROW: sum(each.bytes_per_s != inf for each in plans),
        LEAVES: sum(each.departure is not None for each in plans),
        TWIN: sum(each.twin is not None for each in plans),
        SLOW_DATA: sum(bool(each.slow_data) for each in plans),
        MOVES: sum(bool(each.slot_moves) for each in plans),
        COPIES: sum(each.swarm.options.queue_replicas > 1 for each in plans),
        RATE: sum(each.swarm.options.max_message_rate > 0 for each in plans),
    }
    assert VARIANTS[RATE] == has.pop(RATE) == 0  # only if it is asked for
    for kind in has:
        share = VARIANTS[kind]
        least = 0.1 if kind in (TWIN, MOVES) else 0.4  # not combined with some others
        assert least * share * 40 < has[kind] < 1.8 * share * 40, (kind, has)


def test_a_forced_kind_leaves_the_rest_as_it_is() -> None:
    usual = plan(3, 3)
    assert vary(usual, ()) == usual
    small = vary(usual, (SMALL,))
    assert small.swarm == usual.swarm and small.settings.raft.snapshot_every == 5
    assert vary(usual, (SMALL, NARROW)).settings == small.settings


def test_in_a_sparse_world_no_client_takes_everything() -> None:
    for seed in range(20):
        found = vary(plan(seed, 3), (SPARSE,))
        filters = {name for client in found.swarm.clients for name, _ in client.filters}
        assert not filters & {"t/#", "t/+", "#"}


@pytest.mark.slow
def test_small_limits_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots are made and installed, the log of metadata is shortened, and a member is away for too long."""
    seen: set[str] = set()

    def recorder(owner: type, name: str) -> None:
        original = getattr(owner, name)

        def watched(*arguments: object) -> object:
            seen.add(name)
            return original(*arguments)

        monkeypatch.setattr(owner, name, watched)

    for owner, name in ((Consensus, "_restore"), (Compactor, "_shorten"), (MembershipState, "_stale")):
        recorder(owner, name)
    for seed in range(16):
        assert ClusterSimulation(with_changing_routes(vary(plan(seed, 3), (SMALL,)))).run().violations == ()
        if len(seen) == 3:
            break
    assert seen == {"_restore", "_shorten", "_stale"}


def test_a_node_is_taken_out_and_comes_back_with_an_empty_disk() -> None:
    simulation = ClusterSimulation(vary(plan(1, 3, "sync", 12.0, ()), (LEAVES,)))
    world = simulation.world
    assert world.plan.departure is not None
    assert simulation.run().violations == ()
    machine = world.machines[world.plan.departure[1]]
    assert len(world.history.life(machine.name).emptied) >= 2 and machine.disk_id != f"{machine.name}-disk"


def test_slots_with_copies_move_although_a_disk_is_lost() -> None:
    """The cluster says which sessions are lost with a disk."""
    found = next(each for seed in range(100) if "disk_lost" in str((each := plan(seed, 3)).schedule))
    assert not vary(found, (MOVES,)).slot_moves
    varied = vary(found, (MOVES, COPIES))
    assert varied.slot_moves and (found.disks, varied.disks) == (1, 2)


def test_small_limits_lengthen_a_copy_and_the_wait_of_what_nobody_waits_for() -> None:
    def limits() -> tuple[object, ...]:
        return slot_filling.SMALL, slot_filling.LARGE, slot_leftovers.STEP, late_changes.LATEST_MS

    usual = limits()
    for kinds in ((), (SMALL,), (COPIES,)):
        with small_items(vary(plan(3, 3), kinds)):
            assert usual == limits()
    with small_items(vary(plan(3, 3), (SMALL, COPIES))):
        assert limits() == ((100, 100), (100, 400), 5, 500.0)
        assert copy_check.PATIENCE_MS == 0 and slot_comparison.STEP.rows == 8
    assert usual == limits()


@pytest.mark.parametrize("dropped", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_disconnect_that_waits_for_a_rate_is_handled(monkeypatch: pytest.MonkeyPatch, dropped: bool) -> None:
    """Although the gateway ends. A node that drops it is found."""
    broken = RelayedTransport.broken

    def drop(transport: RelayedTransport) -> None:
        transport._gone = ""
        broken(transport)

    if dropped:
        monkeypatch.setattr(RelayedTransport, "broken", drop)
    simulation = ClusterSimulation(replace(vary(plan(9018, 3), (COPIES, RATE)), relay=True))
    found = simulation.run().violations
    assert simulation.world.history.leaving
    assert [each.partition(":")[0] for each in found] == ["disconnect unheard"] * dropped

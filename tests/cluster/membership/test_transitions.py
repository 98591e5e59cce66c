"""One fault at a time in a whole cluster: its duration, and the nodes out of the view. Real milliseconds."""

from __future__ import annotations

import pytest

from tests.harness.thinning import thinned

from ...harness.membership import MembershipHarness
from ...harness.membership_walks import heal, inject

DETECTION_LIMIT = 4500
"""Worst failover, in ms."""


def whole_world(seed: int, size: int = 3) -> MembershipHarness:
    world = MembershipHarness(seed, size, slow=0)
    world.run_until(world.is_whole, 3000)
    world.run(world.rng.uniform(0, 1000))
    return world


def out(world: MembershipHarness, name: str) -> bool:
    return name not in world.truth.view.nodes


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_a_new_cluster_is_whole_at_once(size: int) -> None:
    world = MembershipHarness(size, size, slow=0)
    assert world.run_until(world.is_whole, 3000) < 2000


@pytest.mark.parametrize(
    "kind", thinned(["kill", "pause", "freeze", "stall", "isolate", "one way in", "one way out"], 4)
)
@pytest.mark.parametrize("victim", ["leader", "follower"])
def test_a_lost_node_is_removed_in_time_and_back_within_a_second(kind: str, victim: str) -> None:
    gone_ms, back_ms = [], []
    for seed in range(6):
        world = whole_world(seed, 3 + seed % 3)
        name = world.leader if victim == "leader" else next(n for n in world.names if n != world.leader)
        inject(world, kind, name, 1e9)
        gone_ms.append(world.run_until(lambda w=world, n=name: out(w, n), DETECTION_LIMIT))  # type: ignore[misc]
        world.run(3000)
        others = [n for n in world.names if n != name]
        assert world.truth.view.serving == tuple(others)
        heal(world)
        back_ms.append(world.run_until(world.is_whole, 1500))
    gone_ms.sort()
    # A cut in one direction is known after four heartbeats, and waits for the lease granted until then.
    usual = 4000 if victim == "leader" else 3500 if kind == "one way in" else 3000
    assert gone_ms[len(gone_ms) // 2] < usual
    assert sorted(back_ms)[len(back_ms) // 2] < 1000, back_ms


@pytest.mark.parametrize("kind", ["pair cut", "half cut"])
def test_of_two_that_do_not_hear_each_other_one_is_out_and_stays_out(kind: str) -> None:
    for seed in range(6):
        world = whole_world(seed, 3 + seed % 3)
        x, y = [name for name in world.names if name != world.leader][:2]
        world.cuts.update([(x, y), (y, x)] if kind == "pair cut" else [(x, y)])
        took = world.run_until(lambda w=world, a=x, b=y: out(w, a) or out(w, b), DETECTION_LIMIT)  # type: ignore[misc]
        assert took > 2000 and out(world, y) and not out(world, x)
        views = len(world.views)
        world.run(10_000)
        assert len(world.views) == views
        heal(world)
        world.run_until(world.is_whole, 1500)
        assert len(world.views) == views + 2


def test_an_unnoticed_restart_is_a_leave_and_an_enter() -> None:
    for seed in range(6):
        world = whole_world(seed)
        name = world.names[seed % 3]
        before = world.truth.view.incarnation(name)
        assert before is not None
        if name == world.leader:
            world.elect(next(n for n in world.names if n != name))
            world.run(300)
        begin = len(world.views)
        inject(world, "fast restart", name, 300)
        world.run(320)
        world.run_until(world.is_whole, 2000)
        after = world.truth.view.incarnation(name)
        assert after is not None and after.boot == before.boot + 1 and after.entered_in_view > before.entered_in_view
        assert [name in nodes for _, nodes in world.views[begin:]] == [False, True, True]


def test_all_nodes_serve_again_after_a_restart_of_all() -> None:
    for seed in range(4):
        world = whole_world(seed, 2 + seed)
        for host in world.hosts.values():
            host.kill()
        world.run(500)
        for host in world.hosts.values():
            host.start()
        world.run_until(world.is_whole, 4500)


def test_of_two_the_voter_survives_the_other() -> None:
    world = whole_world(1, 2)
    world.hosts["b"].kill()
    world.run_until(lambda: out(world, "b"), DETECTION_LIMIT)
    world.run(3000)
    assert world.hosts["a"].valid() and world.truth.view.serving == ("a",)


def test_a_minority_has_no_lease_and_the_majority_keeps_its() -> None:
    world = whole_world(3, 5)
    for x in "ab":
        for y in "cde":
            world.cuts.update([(x, y), (y, x)])
    world.run(6000)
    assert [name for name in world.names if world.hosts[name].valid()] == ["c", "d", "e"]
    assert world.truth.view.serving == ("c", "d", "e")

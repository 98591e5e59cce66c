"""What is seen of all machines at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from strogoff.netsplit.policy import OPERATIONS, ViewState

from .clusters import joined


def test_states_and_leases() -> None:
    world = joined(trace=True)
    seen = world.monitor.seen
    now = world.loop.now_s
    assert seen.leases > 10 and not seen.problems
    assert world.monitor.between("n2", now, now) == {ViewState.WHOLE}
    assert world.monitor.lacked_whole_view("n2", 0.9) and not world.monitor.lacked_whole_view("n2", now)
    assert any("leads, whole, view" in line for line in world.history.lines or ())
    node = world.machines["n2"].node
    assert node is not None
    node.view_state = ViewState.MINORITY
    assert world.monitor.lacked_whole_view("n2", now), "it refuses before anybody looks (3 nodes, seed 229188)"


def test_a_complaint_is_made_once() -> None:
    world = joined()
    world.monitor.complain("it is so")
    world.monitor.complain("it is so")
    assert list(world.monitor.seen.problems) == ["it is so"]


def test_a_promise_without_a_lease_is_seen_at_the_moment_it_leaves() -> None:
    world = joined()
    machine = world.machines["n2"]
    node: Any = machine.node
    assert node is not None and machine.member is not None and machine.member.lease_service is not None
    options = msgspec.structs.replace(
        world.swarm.options, **{f"allow_{each}_during_netsplit": "majority" for each in OPERATIONS}
    )
    world.swarm = world.monitor._world.swarm = replace(world.swarm, options=options)
    node.guard = lambda front, promised, out: True
    world.monitor.guard(machine)
    assert node.guard(None, 1, []) and not world.monitor.seen.problems
    machine.member.lease_service.holder._lose()
    assert node.guard(None, 1, [])
    assert list(world.monitor.seen.problems) == ["two leases: n2 promises without a lease"]

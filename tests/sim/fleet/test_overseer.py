"""What is seen of all machines at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from strogoff.netsplit.policy import OPERATIONS, ViewState

from .floor import joined


def test_states_and_leases() -> None:
    fleet = joined(trace=True)
    seen = fleet.overseer.seen
    now = fleet.loop.now_s
    assert seen.leases > 10 and not seen.problems
    assert fleet.overseer.between("n2", now, now) == {ViewState.WHOLE}
    assert fleet.overseer.excused("n2", 0.9) and not fleet.overseer.excused("n2", now)
    assert any("leads, whole, view" in line for line in fleet.history.lines or ())
    node = fleet.machines["n2"].node
    assert node is not None
    node.view_state = ViewState.MINORITY
    assert fleet.overseer.excused("n2", now), "it refuses before anybody looks (3 nodes, seed 229188)"


def test_a_complaint_is_made_once() -> None:
    fleet = joined()
    fleet.overseer.complain("it is so")
    fleet.overseer.complain("it is so")
    assert list(fleet.overseer.seen.problems) == ["it is so"]


def test_a_promise_without_a_lease_is_seen_at_the_moment_it_leaves() -> None:
    fleet = joined()
    machine = fleet.machines["n2"]
    node: Any = machine.node
    assert node is not None and machine.member is not None and machine.member.lease_service is not None
    options = msgspec.structs.replace(
        fleet.swarm.options, **{f"allow_{each}_during_netsplit": "majority" for each in OPERATIONS}
    )
    fleet.swarm = fleet.overseer._fleet.swarm = replace(fleet.swarm, options=options)
    node.guard = lambda front, promised, out: True
    fleet.overseer.guard(machine)
    assert node.guard(None, 1, []) and not fleet.overseer.seen.problems
    machine.member.lease_service.holder._lose()
    assert node.guard(None, 1, [])
    assert list(fleet.overseer.seen.problems) == ["two leases: n2 promises without a lease"]

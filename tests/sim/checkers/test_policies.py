"""Policies that are not kept, and refusals that come late."""

from __future__ import annotations

from strogoff.netsplit.policy import ViewState
from strogoff.sim.checkers.policies import check
from strogoff.sim.history import NEVER
from tests.sim.scene import Story


def test_off_needs_the_whole_cluster_at_some_time_between() -> None:
    scene = Story()
    scene.publish("w-1")
    scene.subscribe("s", "t/#")
    case = scene.case()
    assert list(check(case, lambda *_: {ViewState.MAJORITY, ViewState.WHOLE})) == []
    assert list(check(case, lambda *_: set())) == []
    assert list(check(case, lambda *_: {ViewState.MAJORITY})) == [
        "policy: w-1 was accepted at n1, which was majority; publish = off",
        "policy: s got t/# at n1, which was majority; subscribe = off",
    ]


def test_who_is_refused_was_not_delivered() -> None:
    scene = Story()
    attempt = scene.publish("w-1", acked=False)
    attempt.refused = 5
    scene.deliver("w-1")
    assert attempt.acked == NEVER
    assert list(check(scene.case(), lambda *_: set())) == ["late refusal: s got w-1, which was refused"]

"""Violated policies, and refusals after the end of a split."""

from __future__ import annotations

import pytest

from strogoff.netsplit.policy import ViewState
from strogoff.sim.checkers.policies import check
from strogoff.sim.history import NEVER
from tests.sim.histories import HistoryBuilder


def test_off_needs_the_whole_cluster_at_some_time_between() -> None:
    builder = HistoryBuilder()
    builder.publish("w-1")
    builder.subscribe("s", "t/#")
    case = builder.case()
    assert list(check(case, lambda *_: {ViewState.MAJORITY, ViewState.WHOLE})) == []
    assert list(check(case, lambda *_: set())) == []
    assert list(check(case, lambda *_: {ViewState.MAJORITY})) == [
        "policy: w-1 was accepted at n1 in state majority; publish = off",
        "policy: s got t/# at n1 in state majority; subscribe = off",
    ]


def test_a_refused_message_must_not_be_delivered() -> None:
    builder = HistoryBuilder()
    attempt = builder.publish("w-1", acked=False)
    attempt.refused = 5
    builder.deliver("w-1")
    assert attempt.acked == NEVER
    assert list(check(builder.case(), lambda *_: set())) == ["late refusal: s got w-1 although it was refused"]


@pytest.mark.parametrize(("qos", "power_lost", "node", "found"), [
    (2, True, "n1", 0), (1, True, "n1", 1), (2, False, "n1", 1), (2, True, "n2", 1),
])  # fmt: skip
def test_after_a_loss_of_power_an_id_may_stand_for_an_earlier_message(
    qos: int, power_lost: bool, node: str, found: int
) -> None:
    builder = HistoryBuilder()
    builder.history.fault("power loss", node)
    builder.history.power_lost = power_lost
    builder.publish("w-1", qos=qos)
    assert len(list(check(builder.case(), lambda *_: {ViewState.MAJORITY}))) == found

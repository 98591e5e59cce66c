"""What a node accepts now: its disk, the split policies, and whether the cluster lets it serve."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.operation_policy import OperationPolicy
from strogoff.netsplit.policy import ViewState
from tests.harness.broker import BrokerHarness

OPERATIONS = ["register", "publish", "subscribe", "unsubscribe"]


def policy(**options: Any) -> OperationPolicy:
    return BrokerHarness(**options).node.policy


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_whole_cluster_accepts_everything(operation: str) -> None:
    assert policy().allows(operation, {})


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_fenced_node_accepts_nothing(operation: str) -> None:
    made = policy()
    made.fenced = True
    assert not made.allows(operation, {})


def test_a_node_that_settles_refuses_without_a_lease_only() -> None:
    made = policy(allow_publish_during_netsplit="on")
    made.settling = True
    assert made.allows("publish", {})
    made.view_state = ViewState.MINORITY
    assert not made.allows("publish", {})
    made.settling = False
    assert made.allows("publish", {})


@pytest.mark.parametrize(("flag", "allowed"), [("on", True), ("off", False), (True, True), (False, False)])
def test_the_flag_of_a_plugin_goes_before_the_option(flag: object, allowed: bool) -> None:
    made = policy(allow_publish_during_netsplit="majority")
    made.view_state = ViewState.MINORITY
    assert made.allows("publish", {"allow_publish": flag}) is allowed


def test_a_full_disk_or_a_view_that_is_not_whole_restricts_publishes() -> None:
    broker = BrokerHarness()
    made = broker.node.policy
    assert not made.restricted
    made.view_state = ViewState.MAJORITY
    assert made.restricted
    made.view_state = ViewState.WHOLE
    assert not made.restricted
    broker.disk.full = True
    broker.client("c").publish("t", b"1", 1, retain=True)
    broker.pass_s(1.0)
    assert made.restricted


def test_a_waiting_call_is_made_once_when_something_changes() -> None:
    made = policy()
    calls: list[int] = []
    made.when_accepting(lambda: calls.append(1))
    made.view_state = ViewState.MAJORITY
    made.view_state = ViewState.WHOLE
    assert calls == [1]


def test_all_operations_have_to_be_accepted_without_a_lease() -> None:
    made = policy(allow_publish_during_netsplit="on", allow_subscribe_during_netsplit="off")
    assert made.accepts_without_lease(["publish"], {})
    assert not made.accepts_without_lease(["publish", "subscribe"], {})

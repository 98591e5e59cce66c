"""Which operations a node accepts: by view state, by the flags of a plugin, and while it may not serve at all."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.operation_policy import COPIES, NETSPLIT, NO_SLOT, OperationPolicy
from strogoff.netsplit.policy import OPERATIONS, ViewState
from tests.harness.broker import BrokerHarness

ON = {f"allow_{operation}_during_netsplit": "on" for operation in OPERATIONS}


def _policy(state: ViewState = ViewState.WHOLE, options: dict[str, Any] | None = None) -> OperationPolicy:
    policy = BrokerHarness(**(options or {})).node.policy
    policy.view_state = state
    return policy


@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_operation_has_its_own_flag(operation: str) -> None:
    policy = _policy(ViewState.MAJORITY, {f"allow_{operation}_during_netsplit": "majority"})
    assert [each for each in OPERATIONS if policy.allows(each, {})] == [operation]


def test_a_slot_with_too_few_copies_refuses_what_the_flag_allows() -> None:
    policy = _policy()
    policy.set_few_copies(frozenset((3, 4)))
    assert [policy.refusal("subscribe", {}, slot) for slot in (3, 5, NO_SLOT)] == [COPIES, "", ""]
    policy.view_state = ViewState.MAJORITY
    assert [policy.refusal("subscribe", {}, slot) for slot in (3, 5)] == [NETSPLIT, NETSPLIT]


def test_a_node_stays_restricted_until_it_has_looked_at_what_waits() -> None:
    broker, called = BrokerHarness(), list[bool]()
    policy = broker.node.policy
    assert not policy.restricted
    policy.set_few_copies(frozenset((3,)))
    assert policy.restricted
    policy.look_again()
    assert policy.restricted
    policy.set_few_copies(frozenset())
    policy.when_accepting(lambda: called.append(policy.restricted))
    assert policy.restricted and not called
    policy.look_again()
    assert policy.restricted and not called
    broker.settle()
    assert called == [False] and not policy.restricted


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_fenced_node_allows_nothing(operation: str) -> None:
    policy = _policy(options=ON)
    assert policy.allows(operation, {})
    policy.fenced = True
    assert not policy.allows(operation, {f"allow_{operation}": True})
    assert not policy.accepts_without_lease([operation], {})


@pytest.mark.parametrize(
    ("state", "allowed"), [(ViewState.WHOLE, True), (ViewState.MAJORITY, True), (ViewState.MINORITY, False)]
)
def test_a_settling_node_needs_a_lease(state: ViewState, allowed: bool) -> None:
    policy = _policy(state, options=ON)
    assert policy.allows("publish", {})
    policy.settling = True
    assert policy.allows("publish", {}) is allowed
    assert not policy.accepts_without_lease(["publish"], {})


@pytest.mark.parametrize(
    ("modifier", "majority", "minority"),
    [(True, True, True), (False, False, False), ("majority", True, False), ("on", True, True), ("off", False, False)],
)
@pytest.mark.parametrize("option", ["on", "off"])
def test_the_flag_of_a_plugin_replaces_that_of_the_node(
    option: str, modifier: bool | str, majority: bool, minority: bool
) -> None:
    policy = _policy(ViewState.MAJORITY, {"allow_publish_during_netsplit": option})
    modifiers = {"allow_publish": modifier}
    assert policy.allows("publish", modifiers) is majority
    policy.view_state = ViewState.MINORITY
    assert policy.allows("publish", modifiers) is minority


def test_the_flag_of_a_plugin_counts_for_its_operation_only() -> None:
    policy = _policy(ViewState.MINORITY)
    assert [each for each in OPERATIONS if policy.allows(each, {"allow_publish": True})] == ["publish"]


@pytest.mark.parametrize("state", list(ViewState))
def test_the_view_state_restricts_the_node(state: ViewState) -> None:
    policy = _policy()
    assert not policy.restricted
    policy.view_state = state
    assert policy.restricted is (state is not ViewState.WHOLE)
    assert policy.view_state is state
    policy.view_state = ViewState.WHOLE
    assert not policy.restricted


def test_a_full_disk_restricts_the_node() -> None:
    broker = BrokerHarness()
    policy = broker.node.policy
    broker.disk.full = True
    broker.node.env.store.put(b"nx", b"")
    broker.settle()
    assert policy.restricted
    policy.view_state = ViewState.WHOLE
    assert policy.restricted
    broker.disk.full = False
    broker.pass_s(60.0)
    assert not policy.restricted


def test_a_waiter_is_called_once_in_a_turn_of_its_own() -> None:
    broker, called = BrokerHarness(), list[tuple[str, int]]()
    policy, env = broker.node.policy, broker.node.env
    policy.view_state = ViewState.MAJORITY
    policy.when_accepting(lambda: called.append(("first", env.now)))
    policy.when_accepting(lambda: called.append(("second", env.now)))
    policy.view_state = ViewState.MINORITY
    policy.view_state = ViewState.WHOLE
    assert called == []
    now, env.now = env.now, 0
    broker.settle()
    policy.look_again()
    broker.settle()
    assert called == [("first", now), ("second", now)]


def test_a_waiter_that_waits_again_is_called_at_the_next_change() -> None:
    broker, called = BrokerHarness(), list[bool]()
    policy = broker.node.policy
    policy.view_state = ViewState.MAJORITY

    def wait() -> None:
        called.append(policy.restricted)
        policy.when_accepting(wait)

    policy.when_accepting(wait)
    policy.look_again()
    policy.look_again()
    broker.settle()
    assert called == [True]
    policy.view_state = ViewState.WHOLE
    broker.settle()
    assert called == [True, False]


def test_a_node_without_a_lease_accepts_by_the_flag_on_alone() -> None:
    """The view state is not used: here it is still WHOLE."""
    flags = {"allow_publish_during_netsplit": "on", "allow_subscribe_during_netsplit": "majority"}
    policy = _policy(options=flags)
    assert policy.accepts_without_lease(["publish"], {})
    assert not policy.accepts_without_lease(["subscribe"], {})
    assert not policy.accepts_without_lease(["publish", "subscribe"], {})
    assert policy.accepts_without_lease(["publish", "subscribe"], {"allow_subscribe": True})
    assert not policy.accepts_without_lease(["publish"], {"allow_publish": False})


@pytest.mark.parametrize(("flag", "guesses"), [("on", True), ("off", False)])
def test_a_node_that_accepts_without_a_lease_guesses_the_time_by_its_wall_clock(flag: str, guesses: bool) -> None:
    broker = BrokerHarness(allow_publish_during_netsplit=flag)
    clock = broker.node.env.clock
    clock.ask_cluster()
    broker.host.wall_off_ms = 5000.0
    before = clock.now_ms()
    assert broker.node.policy.accepts_without_lease(["publish"], {}) is guesses
    assert not clock.known
    assert clock.now_ms() == before + 5000 * guesses

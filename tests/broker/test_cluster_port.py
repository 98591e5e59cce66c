"""A node without a cluster answers every call of the port, and every implementation has the methods of the port."""

from __future__ import annotations

import inspect

import pytest

from strogoff.broker.cluster_port import ClusterPort, Standalone, Starting
from strogoff.broker.clustering.adapter import ClusterAdapter
from strogoff.broker.queues.message import Message
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.routing.remote_table import NOWHERE
from strogoff.broker.routing.subscriptions import Subscription
from tests.harness.broker import BrokerHarness

METHODS = sorted(
    name for name, value in vars(ClusterPort).items() if inspect.isfunction(value) and not name.startswith("_")
)


def _parameters(owner: type, name: str) -> list[tuple[str, object, object]]:
    signature = inspect.signature(getattr(owner, name))
    return [(each.name, each.kind, each.default) for each in signature.parameters.values()]


def _message(broker: BrokerHarness) -> Message:
    return Message("", "t", b"m", 2, False, None, 0, "p", broker.node.env.origin, 1)


@pytest.mark.parametrize("implementation", [Standalone, ClusterAdapter])
@pytest.mark.parametrize("name", METHODS)
def test_an_implementation_has_the_method_with_the_same_parameters(implementation: type, name: str) -> None:
    assert name in vars(implementation)
    assert _parameters(implementation, name) == _parameters(ClusterPort, name)


def test_the_port_has_methods() -> None:
    assert {"has_lease", "may_acknowledge", "forward", "retain", "handed_over"} <= set(METHODS)


def test_a_node_starts_without_a_cluster() -> None:
    assert type(BrokerHarness().node.env.cluster) is Standalone


def test_a_node_alone_may_promise_everything() -> None:
    alone = Standalone()
    assert alone.has_lease() is True
    assert alone.may_acknowledge(object(), 15, [b"frame"]) is True


def test_a_node_alone_knows_no_other_node() -> None:
    alone = Standalone()
    assert alone.is_present("n2") is False and alone.entrance_of("n2") == 0
    assert alone.remote_matches("", "t") is NOWHERE
    assert alone.congested("", "c") == ""
    assert alone.slot_epoch(7) == 0
    assert alone.came_back(_message(BrokerHarness()), "$share/g/t") is False


def test_a_node_alone_stores_retained_messages_itself() -> None:
    context = AckContext()
    assert Standalone().retain("", "t", _message(BrokerHarness()), context) is False
    assert Standalone().retain("", "t", None, context) is False
    assert context.pending is None


def test_a_node_alone_adds_nothing_to_an_answer() -> None:
    """Calls that only inform other nodes do nothing."""
    broker, context, alone = BrokerHarness(), AckContext(), Standalone()
    broker.persistent("s").subscribe(("t", 1))
    session = broker.node.sessions.get("", "s")
    assert session is not None
    subscription: Subscription = session.subscriptions["t"]
    alone.publishing()
    alone.confirm_deleted("", "t", context)
    alone.subscribed(subscription, None, context)
    alone.unsubscribed(subscription)
    alone.presence_changed(session)
    alone.handshake_opened(("n1", 1, 1))
    alone.handshake_closed(("n1", 1, 1))
    assert alone.mid_of_slot(1, True) is None
    assert not alone.take_own_live(_message(broker)) and alone.failover_grace_s() == 0
    alone.handed_over(_message(broker), "$share/g/t")
    assert context.pending is None


def test_a_node_alone_sends_nothing_to_other_nodes() -> None:
    broker = BrokerHarness()
    client = broker.client("c")
    (connection,) = broker.node.connections.values()
    assert not client.closed
    with pytest.raises(AssertionError, match="no remote targets"):
        Standalone().forward(_message(broker), (), [], AckContext())
    with pytest.raises(AssertionError, match="no slow peers"):
        Standalone().when_relieved("n2", connection)


def test_a_member_that_starts_ends_nothing_and_may_promise_nothing() -> None:
    starting = Starting(5)
    assert starting.has_lease() is False
    assert starting.expiry_pause_ms() == 5000 and starting.failover_grace_s() == 5

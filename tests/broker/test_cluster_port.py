"""The port to the cluster: both implementations have all of it, and a node without a cluster needs nothing."""

from __future__ import annotations

import inspect

import pytest

from strogoff.broker.cluster_port import ClusterPort, Standalone
from strogoff.broker.clustering.adapter import ClusterAdapter
from strogoff.broker.queues.message import Message, Origin
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.routing.remote_table import NOWHERE

METHODS = [name for name, value in vars(ClusterPort).items() if inspect.isfunction(value) and not name.startswith("_")]


@pytest.mark.parametrize("kind", [Standalone, ClusterAdapter])
@pytest.mark.parametrize("name", METHODS)
def test_an_implementation_has_the_method_with_the_same_parameters(kind: type, name: str) -> None:
    wanted = list(inspect.signature(getattr(ClusterPort, name)).parameters)
    assert list(inspect.signature(getattr(kind, name)).parameters) == wanted


def test_a_node_without_a_cluster_may_do_everything_and_has_no_others() -> None:
    port = Standalone()
    assert port.has_lease() and port.may_acknowledge(object(), 1, [])
    assert not port.is_present("n2")
    assert port.remote_matches("", "t") is NOWHERE
    assert port.congested("", "c") == ""


def test_a_node_without_a_cluster_keeps_retained_messages_itself() -> None:
    context = AckContext()
    assert not Standalone().retain("", "t", None, context)
    assert context.pending is None


def test_a_node_without_a_cluster_is_never_asked_to_forward() -> None:
    message = Message("", "t", b"", 1, False, None, 0, "c", Origin("n1", 1), 1)
    with pytest.raises(AssertionError, match="no remote targets"):
        Standalone().forward(message, (), [], AckContext())

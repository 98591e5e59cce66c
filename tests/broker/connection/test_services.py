"""The parts of a node that its connections share."""

from __future__ import annotations

from tests.harness.broker import BrokerHarness


def test_client_ids_that_the_broker_makes_differ() -> None:
    services = BrokerHarness().node.services
    made = {services.new_client_id() for _ in range(100)}
    assert len(made) == 100 and all(each.startswith("anon-") and len(each) == 37 for each in made)


def test_a_connection_is_closed_once() -> None:
    broker = BrokerHarness()
    client = broker.client("c")
    (connection,) = broker.node.connections.values()
    client.vanish()
    assert not broker.node.connections
    assert not broker.node.services.closed(connection)
    assert broker.node.env.counters.socket_close == 1

"""The services that all client connections of a node share: new client ids, and the end of each connection once."""

from __future__ import annotations

import re

from strogoff.mqtt import packets
from tests.harness.broker import BrokerHarness


def test_a_new_client_id_is_random() -> None:
    services = BrokerHarness().node.services
    found = {services.new_client_id() for _ in range(100)}
    assert len(found) == 100
    assert all(re.fullmatch(r"anon-[0-9a-f]{32}", each) for each in found)


def test_the_seed_decides_the_client_ids() -> None:
    """The port for chance is the only source of randomness."""
    services, again = BrokerHarness().node.services, BrokerHarness().node.services
    assert services.new_client_id() == again.new_client_id()


def test_a_client_without_an_id_gets_one() -> None:
    broker = BrokerHarness()
    _, connack = broker.connect("", 5)
    assert isinstance(connack, packets.Connack) and connack.properties is not None
    (session,) = broker.node.sessions.in_memory()
    assert session.client_id == connack.properties["assigned_client_identifier"]
    assert session.client_id.startswith("anon-")


def test_a_connection_is_closed_once() -> None:
    broker = BrokerHarness()
    broker.client("a")
    (connection,) = broker.node.connections.values()
    broker.client("b")
    assert broker.node.services.closed(connection) is True
    assert connection not in broker.node.connections.values()
    assert len(broker.node.connections) == 1
    assert broker.node.services.closed(connection) is False


def test_the_end_of_a_connection_is_one_event() -> None:
    broker = BrokerHarness()
    client = broker.client("c")
    (connection,) = broker.node.connections.values()
    client.leave()
    connection.drop("again")
    connection.lost("again")
    assert [event["reason"] for event in broker.events("conn.close")] == ["disconnect"]
    assert broker.node.connections == {}


def test_connections_share_the_parts_of_the_node() -> None:
    broker = BrokerHarness()
    broker.client("a")
    broker.client("b")
    one, two = broker.node.connections.values()
    assert one.services is two.services is broker.node.services
    services, node = broker.node.services, broker.node
    assert (services.env, services.policy, services.router) == (node.env, node.policy, node.router)
    assert (services.publisher, services.sessions, services.replays) == (node.publisher, node.sessions, node.replays)

"""What client and broker agree on at CONNECT."""

from __future__ import annotations

import pytest

from strogoff.broker.connection.connection import ClientConnection
from tests.harness.broker import BrokerHarness


def connection_of(broker: BrokerHarness) -> ClientConnection:
    (connection,) = broker.node.connections.values()
    return connection


def window(broker: BrokerHarness) -> int:
    session = broker.node.sessions.get("", "c")
    assert session is not None
    return session.queue.window


@pytest.mark.parametrize(("asked", "most", "granted"), [(10, 20, 10), (20, 10, 10)])
def test_a_v5_client_gets_the_smaller_window(asked: int, most: int, granted: int) -> None:
    broker = BrokerHarness(receive_max_client=most)
    broker.client("c", 5, receive_maximum=asked)
    assert window(broker) == granted


def test_an_older_client_gets_the_window_of_the_configuration() -> None:
    broker = BrokerHarness(max_inflight_messages=7)
    broker.client("c", 4)
    assert window(broker) == 7


EXPIRIES = [(5, False, 60, 60), (5, True, None, 0), (4, True, None, 0)]


@pytest.mark.parametrize(("version", "clean", "expiry_s", "lasts"), EXPIRIES)
def test_the_session_expiry_is_that_of_connect(version: int, clean: bool, expiry_s: int | None, lasts: int) -> None:
    broker = BrokerHarness()
    broker.client("c", version, clean, expiry_s)
    session = broker.node.sessions.get("", "c")
    assert session is not None and session.expiry_s == lasts


def test_limits_of_publishes_are_agreed_on() -> None:
    broker = BrokerHarness(receive_max_broker=5, topic_alias_max_client=3, topic_alias_max_broker=2)
    broker.client("c", 5, topic_alias_maximum=10)
    connection = connection_of(broker)
    assert connection.publishing.receive_maximum == 5
    assert connection.publishing.alias_maximum == 3
    assert connection.output.topic_alias_limit == 2


def test_the_handshake_ends_with_connack() -> None:
    broker = BrokerHarness()
    broker.client("c", 5)
    assert connection_of(broker).handshake is None

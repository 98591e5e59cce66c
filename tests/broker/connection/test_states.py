"""The states of a connection: the legal events of each, and the usual sequence."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.connection.connection import ClientConnection
from strogoff.broker.connection.states import TRANSITIONS, Event, State
from strogoff.mqtt import packets
from strogoff.sim.engine.host import AllowAll
from tests.harness.broker import BrokerHarness, PacketClient, connect

LEGAL = {
    (State.OPEN, Event.CONNECT),
    (State.CONNECTING, Event.REGISTERED),
    (State.ACCEPTED, Event.CONNACK),
    *((state, Event.CLOSE) for state in State if state is not State.CLOSED),
}
ILLEGAL = [(state, event) for state in State for event in Event if (state, event) not in LEGAL]


class Observer(AllowAll):
    """A plugin that notes the state of the connection when it is asked."""

    def __init__(self) -> None:
        self.broker: BrokerHarness | None = None
        self.seen: list[State] = []

    def auth_on_register(self, *_: Any) -> bool:
        assert self.broker is not None
        self.seen.append(_connection(self.broker).state)
        return True


def _connection(broker: BrokerHarness) -> ClientConnection:
    (connection,) = broker.node.connections.values()
    return connection


def _opened() -> ClientConnection:
    broker = BrokerHarness()
    PacketClient(broker, 4)
    return _connection(broker)


@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_an_illegal_event_raises(state: State, event: Event) -> None:
    connection = _opened()
    connection.state = state
    with pytest.raises(KeyError):
        connection.change(event)
    assert connection.state is state


@pytest.mark.parametrize("state", [state for state in State if state is not State.CLOSED])
def test_each_state_can_close(state: State) -> None:
    connection = _opened()
    connection.state = state
    connection.change(Event.CLOSE)
    assert connection.state is State.CLOSED
    assert connection.closed


def test_a_closed_connection_stays_closed() -> None:
    assert [event for state, event in TRANSITIONS if state is State.CLOSED] == []


def test_a_connection_walks_through_the_states() -> None:
    plugin = Observer()
    broker = plugin.broker = BrokerHarness(plugin, allow_anonymous=False)
    client = PacketClient(broker, 4)
    connection = _connection(broker)
    seen = [(connection.state, connection.connected)]
    broker.hold_disk()
    client.ask(connect("c", 4, clean=False))
    assert plugin.seen == [State.CONNECTING]
    seen.append((connection.state, connection.connected))
    broker.free_disk()
    assert client.take() == [packets.Connack(False, 0)]
    seen.append((connection.state, connection.connected))
    client.leave()
    seen.append((connection.state, connection.connected))
    assert seen == [(State.OPEN, False), (State.ACCEPTED, False), (State.CONNECTED, True), (State.CLOSED, False)]


def test_a_second_connect_does_not_change_the_session() -> None:
    """The connection is closed before CONNECT becomes an event again."""
    broker = BrokerHarness()
    client = broker.client("c")
    connection = _connection(broker)
    client.ask(connect("other"))
    assert connection.state is State.CLOSED
    assert broker.node.sessions.get("", "other") is None


def test_a_connection_without_connect_closes() -> None:
    broker = BrokerHarness(mqtt_connect_timeout_ms=1000)
    PacketClient(broker, 4)
    connection = _connection(broker)
    broker.pass_s(1.1)
    assert connection.state is State.CLOSED

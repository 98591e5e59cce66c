"""The states of a connection: an event that cannot happen is an error, never a state."""

from __future__ import annotations

import pytest

from strogoff.broker.connection.connection import ClientConnection
from strogoff.broker.connection.states import TRANSITIONS, Event, State
from strogoff.mqtt import packets
from tests.harness.broker import BrokerHarness, PacketClient, connect


def state_of(connection: ClientConnection) -> State:
    return connection.state


def test_every_state_but_closed_can_close_and_none_is_left_without_a_way() -> None:
    closing = {state for (state, event), after in TRANSITIONS.items() if event is Event.CLOSE}
    assert closing == set(State) - {State.CLOSED}
    assert set(TRANSITIONS.values()) == set(State) - {State.OPEN}


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("event", list(Event))
def test_an_event_that_is_not_listed_is_an_error(state: State, event: Event) -> None:
    broker = BrokerHarness()
    PacketClient(broker, 4)
    (connection,) = broker.node.connections.values()
    connection.state = state
    if (state, event) in TRANSITIONS:
        connection.change(event)
        assert connection.state is TRANSITIONS[state, event]
    else:
        with pytest.raises(KeyError):
            connection.change(event)


def test_a_connection_walks_through_its_states() -> None:
    broker = BrokerHarness()
    client = PacketClient(broker, 4)
    (connection,) = broker.node.connections.values()
    assert state_of(connection) is State.OPEN
    broker.hold_disk()
    client.send(connect("c", clean=False))
    broker.settle()
    assert state_of(connection) is State.ACCEPTED and not connection.connected
    broker.free_disk()
    assert state_of(connection) is State.CONNECTED and connection.connected
    client.send(packets.Disconnect())
    broker.settle()
    assert state_of(connection) is State.CLOSED and connection.closed

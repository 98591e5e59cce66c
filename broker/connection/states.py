"""The states of a client connection, and the events that each allows."""

from __future__ import annotations

from enum import Enum, auto


class State(Enum):
    """OPEN: no CONNECT has arrived; CONNECTING: plugins and policies decide about CONNECT; ACCEPTED: the connection has
    a session, and CONNACK is not sent yet; CONNECTED: CONNACK was sent; CLOSED: the broker has closed the connection.
    """

    OPEN = auto()
    CONNECTING = auto()
    ACCEPTED = auto()
    CONNECTED = auto()
    CLOSED = auto()


class Event(Enum):
    """The events that change the state of a connection."""

    CONNECT = auto()
    REGISTERED = auto()
    CONNACK = auto()
    CLOSE = auto()


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.OPEN, Event.CONNECT): State.CONNECTING,
    (State.CONNECTING, Event.REGISTERED): State.ACCEPTED,
    (State.ACCEPTED, Event.CONNACK): State.CONNECTED,
    (State.OPEN, Event.CLOSE): State.CLOSED,
    (State.CONNECTING, Event.CLOSE): State.CLOSED,
    (State.ACCEPTED, Event.CLOSE): State.CLOSED,
    (State.CONNECTED, Event.CLOSE): State.CLOSED,
}
"""An event that is not listed for a state cannot happen in it: it raises `KeyError`."""

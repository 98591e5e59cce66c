"""The states of a client connection, and what may happen in each."""

from __future__ import annotations

from enum import Enum, auto


class State(Enum):
    """OPEN: no CONNECT came; CONNECTING: a CONNECT is being decided; ACCEPTED: there is a session, CONNACK is still to
    leave; CONNECTED: CONNACK was sent; CLOSED: given up."""

    OPEN = auto()
    CONNECTING = auto()
    ACCEPTED = auto()
    CONNECTED = auto()
    CLOSED = auto()


class Event(Enum):
    """What changes the state of a connection."""

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

"""What a session needs of the client connection that has it."""

from __future__ import annotations

from typing import Protocol

from ...mqtt.reasons import ReasonCode
from .. import observer
from ..queues.queue import Consumer


class SessionConnection(observer.Connection, Protocol):
    """The client connection of a session."""

    @property
    def gateway(self) -> str:
        """The node that has the client's socket, "" for this one."""
        ...

    @property
    def connected(self) -> bool:
        """True if CONNACK was sent, and the connection is not closed."""
        ...

    @property
    def leaving(self) -> bool:
        """True if the client has ended the connection, and its last packets are still to be handled."""
        ...

    @property
    def output(self) -> Consumer:
        """The output that the session's queue sends to."""
        ...

    def disconnect(self, reason: ReasonCode, detail: str = "") -> None:
        """Close the connection; a v5 client gets the reason."""
        ...

    def moved(self) -> None:
        """The session moves to another node: close the connection, so that the client connects again."""
        ...

    def end_if_cut(self) -> None:
        """The client is back: if the cluster has ended this connection, and the client's last packets wait, drop these
        and close the connection."""
        ...

    def taken_over(self) -> None:
        """Another connection has the client id now: close this one."""
        ...

"""Writes to the event log that a client does not read what was sent to it, and gets nothing more until it does.

So a reader of the log knows a slow client from a broker that has stopped sending. The rows tell only of pauses of more
than `TELL_AFTER_MS`: a client whose buffer is full every few milliseconds writes none.
"""

from __future__ import annotations

from typing import Final, Protocol

from ..environment import Environment
from .timers import ConnectionTimers

TELL_AFTER_MS: Final = 1000
"""A shorter pause has no row. So a connection writes at most two rows in this time."""

_NAME: Final = "unread"


class Owner(Protocol):
    """The client connection whose output is not read."""

    client_id: str
    mountpoint: str
    timers: ConnectionTimers

    @property
    def number(self) -> int:
        """The number of the connection, unique in this start of the node."""
        ...

    @property
    def connected(self) -> bool:
        """True if CONNACK was sent, and the connection is not closed."""
        ...


class UnreadOutput:
    """The pauses of one connection. `told` is True if the log has the begin of the present one."""

    __slots__ = ("_env", "told")

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.told = False

    def begin(self, owner: Owner) -> None:
        """The transport's buffer is full: nothing is sent until it has room."""
        owner.timers.set(_NAME, TELL_AFTER_MS, lambda: self._tell(owner))

    def end(self, owner: Owner) -> None:
        """The buffer has room again."""
        owner.timers.cancel(_NAME)
        if self.told:
            self.told = False
            if owner.connected:
                self._env.observer.output_read(owner)

    def _tell(self, owner: Owner) -> None:
        if owner.connected:
            self.told = True
            self._env.observer.output_unread(owner)

"""Connections that have ended all at once, because the node at their other end has gone.

To end one takes some 30 microseconds, and a node may have relayed ten thousand clients of a gateway that dies. In one
turn they would take half a second, in which no client gets an answer. So each step of the background ends some. Whoever
needs the session of such a connection earlier ends it first: for everybody else it has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..environment import Environment

STEP = 100
"""Connections that one turn ends."""


class LostConnections:
    """The connections that have ended, and whose end is still to be handled, each with the function that does it."""

    __slots__ = ("_ends", "_env", "_planned")

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._ends: dict[object, Callable[[], None]] = {}
        self._planned = False

    def __len__(self) -> int:
        return len(self._ends)

    def __contains__(self, connection: object) -> bool:
        return connection in self._ends

    def add(self, ends: Mapping[object, Callable[[], None]]) -> None:
        """End these connections in later turns. A function may find that its connection has ended otherwise."""
        self._ends.update(ends)
        self._plan()

    def end(self, connection: object) -> None:
        """If this connection is lost, end it now."""
        end = self._ends.pop(connection, None)
        if end is not None:
            end()

    def end_all(self) -> None:
        """End all of them now: the node stops."""
        while self._ends:
            self._ends.popitem()[1]()

    def _plan(self) -> None:
        if self._ends and not self._planned:
            self._planned = True
            self._env.background(self._step)

    def _step(self) -> None:
        self._planned = False
        self._env.tick()
        try:
            for _ in range(min(STEP, len(self._ends))):
                self._ends.popitem()[1]()
        finally:
            self._plan()  # the others end although one raises

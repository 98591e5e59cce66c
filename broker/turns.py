"""Turns of connections that have sent much: each handles some packets, then it is the next one's turn.

A connection handles at most `PACKETS_PER_TURN` packets in one turn of the loop. Its further packets wait, its socket is
not read meanwhile, and it gets its next turns from here, round robin. All these turns together handle about
`PACKETS_PER_ROUND` packets in one turn of the loop, however many connections wait. So a connection that sends little,
which is never in here, waits at most some milliseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

PACKETS_PER_TURN = 256
PACKETS_PER_ROUND = 2048


class Waiting(Protocol):
    """A connection with packets that wait."""

    def next_turn(self) -> int:
        """Handle the next packets; how many they were."""
        ...


class Turns:
    """The connections of a node that wait for their turn. `schedule` runs a function in the next turn of the loop."""

    def __init__(self, schedule: Callable[[Callable[[], None]], object]) -> None:
        self._schedule = schedule
        self._waiting: deque[Waiting] = deque()
        self._scheduled = False

    def add(self, connection: Waiting) -> None:
        """Give this connection a turn, behind those that wait."""
        self._waiting.append(connection)
        self._ask()

    def _ask(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._schedule(self._run)

    def _run(self) -> None:
        self._scheduled = False
        waiting = self._waiting
        handled = 0
        for _ in range(len(waiting)):  # who comes back waits for the next round
            handled += waiting.popleft().next_turn()
            if handled >= PACKETS_PER_ROUND:
                break
        if waiting:
            self._ask()

    def __len__(self) -> int:
        return len(self._waiting)

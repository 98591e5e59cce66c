"""Gives turns to connections that have sent many packets: each handles some, then the next one has its turn.

A connection handles at most `PACKETS_PER_TURN` packets in one turn of the loop. Its further packets wait, its socket is
not read meanwhile, and it gets its next turns from here, round robin. All these turns together handle about
`PACKETS_PER_ROUND` packets in one turn of the loop, or take `ROUND_MS`, however many connections wait. A connection
that sends little is never on this list, so it waits only some milliseconds.

Packets do not all cost the same: one PUBLISH may go to thousands. So a turn also ends once its packets have put
`COPIES_PER_TURN` copies into queues, and a turn that took longer than `TURN_MS` makes the next turn of that connection
half as large.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

PACKETS_PER_TURN = 256
PACKETS_PER_ROUND = 512
COPIES_PER_TURN = 2_000
"""Copies of messages for sessions of this node after which a turn ends: about 5 ms. One PUBLISH may make more."""
TURN_MS = 2
ROUND_MS = 2
TURNS_BETWEEN = 2
"""Turns of the loop without a round, between two rounds. gRPC needs two or three turns of the loop for a frame of
another node. If each of them had a round of 20 ms, a flooded node would take frames more slowly than they arrive. Its
links would be silent, and it would leave the view."""


class Waiting(Protocol):
    """A connection with packets that wait."""

    def next_turn(self) -> int:
        """Handle the next packets; returns how many they count as."""
        ...


class Turns:
    """The connections of a node that wait for their turn.

    `schedule` calls a function in the next turn of the loop; `now_ms` returns the time in ms.
    """

    def __init__(self, schedule: Callable[[Callable[[], None]], object], now_ms: Callable[[], int]) -> None:
        self._schedule = schedule
        self._now_ms = now_ms
        self._waiting: deque[Waiting] = deque()
        self._scheduled = False

    def add(self, connection: Waiting) -> None:
        """Give this connection a turn, after those that wait."""
        self._waiting.append(connection)
        self._ask()

    def _ask(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._rest(TURNS_BETWEEN)

    def _rest(self, turns: int) -> None:
        """Let the loop turn `turns` times without a round, then run one."""
        self._schedule(partial(self._rest, turns - 1) if turns else self._run)

    def _run(self) -> None:
        self._scheduled = False
        waiting = self._waiting
        handled = 0
        until = self._now_ms() + ROUND_MS
        for _ in range(len(waiting)):  # a connection that is added again waits for the next round
            handled += waiting.popleft().next_turn()
            if handled >= PACKETS_PER_ROUND or self._now_ms() >= until:
                break
        if waiting:
            self._ask()

    def __len__(self) -> int:
        return len(self._waiting)


def next_size(size: int, took_ms: int) -> int:
    """Return the packets in the next turn of a connection whose last turn, of `size` packets, took `took_ms`."""
    if took_ms > TURN_MS:
        return max(1, size // 2)
    return min(size * 2, PACKETS_PER_TURN) if took_ms * 2 <= TURN_MS else size

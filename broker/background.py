"""Work that takes many steps, such as the takeover of a hundred slots: each turn of the event loop does one step.

Several kinds of such work go on at the same time, and each step takes some milliseconds. If each kind had its own step
in a turn, the turn would take as long as all of them, and every client would wait. So they share the turns, and take
them one after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Background:
    """The steps that wait. `after_turn` is `Environment.after_turn`."""

    __slots__ = ("_steps", "after_turn")

    def __init__(self, after_turn: Callable[[Callable[[], None]], object]) -> None:
        self.after_turn = after_turn
        self._steps: deque[Callable[[], None]] = deque()

    def __call__(self, step: Callable[[], None]) -> None:
        """Run a step after this turn, and after the turns of the steps that wait already. It may plan the next one."""
        self._steps.append(step)
        if len(self._steps) == 1:
            self.after_turn(self._run)

    @property
    def waiting(self) -> int:
        """How many steps wait."""
        return len(self._steps)

    def _run(self) -> None:
        """Run the first step. If it raises, the others still run."""
        try:
            self._steps[0]()
        finally:
            self._steps.popleft()
            if self._steps:
                self.after_turn(self._run)

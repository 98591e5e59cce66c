"""Long work takes turns: one step in each turn of the event loop."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strogoff.broker.background import Background


class Turns:
    """A loop: `turn` runs what was planned before it."""

    def __init__(self) -> None:
        self._planned: list[Callable[[], None]] = []
        self.background = Background(self._planned.append)
        self.ran: list[str] = []

    def turn(self) -> list[str]:
        """Returns the steps that ran."""
        self.ran.clear()
        planned = self._planned[:]
        self._planned.clear()
        for function in planned:
            function()
        return self.ran[:]

    def walk(self, name: str, steps: int) -> None:
        """Begin some work with this number of steps."""

        def step(left: int) -> None:
            self.ran.append(name)
            if left > 1:
                self.background(lambda: step(left - 1))

        self.background(lambda: step(steps))


def test_each_turn_runs_one_step_and_all_work_takes_turns() -> None:
    turns = Turns()
    turns.walk("a", 3)
    turns.walk("b", 2)
    turns.walk("c", 1)
    ran = [turns.turn() for _ in range(8)]
    assert ran == [["a"], ["b"], ["c"], ["a"], ["b"], ["a"], [], []]
    turns.walk("d", 1)
    assert turns.turn() == ["d"]


def test_other_work_goes_on_after_a_step_that_raises() -> None:
    turns = Turns()

    def broken() -> None:
        turns.walk("later", 1)
        raise ValueError("broken")

    turns.background(broken)
    turns.walk("a", 1)
    with pytest.raises(ValueError, match="broken"):
        turns.turn()
    assert [turns.turn() for _ in range(3)] == [["a"], ["later"], []]

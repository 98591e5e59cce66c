"""What is wrong by itself."""

from __future__ import annotations

from strogoff.sim.checkers.complaints import check

from ..scene import Story


def test_problems_are_passed_on() -> None:
    story = Story()
    story.history.problem("the sky falls")
    assert list(check(story.case())) == ["wrong: the sky falls"]

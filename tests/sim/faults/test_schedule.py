"""Fault schedules: their text parses to them, and a wrong text is refused with the number of its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.sim.faults.kinds import Cut, Delay, FaultError, Kill, Pause
from strogoff.sim.faults.schedule import FaultSchedule, Step

from .strategies import FAULTS, SECONDS

STEPS = st.builds(Step, st.floats(0, 1e9), FAULTS, st.none() | SECONDS)
SCENARIOS = st.lists(STEPS, max_size=6).map(
    lambda steps: FaultSchedule(tuple(sorted(steps, key=lambda step: step.at_s)))
)


@given(SCENARIOS)
def test_the_text_of_a_schedule_parses_to_it(schedule: FaultSchedule) -> None:
    assert FaultSchedule.parse(str(schedule)) == schedule
    assert FaultSchedule.parse(str(schedule).replace("\n", " ; ")) == schedule


def test_a_scenario_as_people_write_it() -> None:
    schedule = FaultSchedule.parse("""
        at 0s delay a b 20ms        # a bad line
        at 1.5s cut a b | c for 10s; at 2s kill a

        at 2s pause b 3s
    """)
    assert schedule.steps == (
        Step(0, Delay("a", "b", 20)),
        Step(1.5, Cut((("a", "b"), ("c",))), 10),
        Step(2, Kill("a")),
        Step(2, Pause("b", 3)),
    )
    assert schedule.nodes == ("a", "b", "c")
    assert str(schedule).splitlines()[1] == "at 1.5s cut a b | c for 10s"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kill a", "line 1: a fault begins with a time, such as 'at 2s': 'kill a'"),
        ("at 1s", "line 1: a fault begins with a time"),
        ("at 1s kill a\nat soon kill b", "line 2: 'soon' is not a number of seconds"),
        ("at 2s kill a\n\nat 1s kill b", "line 3: the faults of a schedule must be in the order of time"),
        ("at 1s kill a for ever", "line 1: 'ever' is not a number of seconds"),
        ("at 1s kill a for 0s", "line 1: seconds must be above 0, are 0"),
        ("at 1s kill a for", "line 1: kill takes 1 words, not 2"),
    ],
)
def test_a_wrong_schedule_is_refused_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(FaultError) as caught:
        FaultSchedule.parse(text)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize("at_s", [-1, float("nan"), float("inf")])
def test_times_are_checked_where_a_step_is_made(at_s: float) -> None:
    with pytest.raises(FaultError):
        Step(at_s, Kill("a"))

"""Cluster time: never back, never in jumps (review, hole 17)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.clock import SLEW, ClusterClock

YEAR_MS = 365 * 86_400_000.0


class Machine:
    """The two clocks of an operating system."""

    def __init__(self) -> None:
        self.wall = 1_000_000.0
        self.mono = 0.0

    def pass_ms(self, ms: float) -> None:
        self.wall += ms
        self.mono += ms

    def clock(self, floor_ms: float = 0) -> ClusterClock:
        return ClusterClock(lambda: self.wall, lambda: self.mono, floor_ms)


def test_it_follows_the_wall_clock() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.pass_ms(1500)
    assert clock.now_ms() == 1_001_500
    assert not clock.alarmed


def test_a_wall_clock_a_year_off_changes_no_deadline() -> None:
    for jump in (YEAR_MS, -YEAR_MS):
        machine = Machine()
        clock = machine.clock()
        machine.wall += jump
        machine.pass_ms(10_000)
        assert abs(clock.now_ms() - 1_010_000) <= 10_000 * SLEW
        assert clock.alarmed


def test_a_second_is_caught_up_within_minutes() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += 1000
    for _ in range(201):
        machine.pass_ms(1000)
        clock.now_ms()
    assert abs(clock.now_ms() - machine.wall) <= 1


def test_a_follower_takes_the_leaders_time_whatever_its_wall_clock_says() -> None:
    machine = Machine()
    clock = machine.clock()
    clock.follow(1_000_500.0)  # the leader is half a second ahead
    machine.wall -= YEAR_MS
    machine.pass_ms(1000)
    assert clock.now_ms() == 1_001_005 and not clock.alarmed
    for _ in range(150):
        machine.pass_ms(1000)
        clock.now_ms()
    assert clock.now_ms() == machine.mono + 1_000_500
    clock.follow(None)  # it leads now: back to its wall clock, without a jump
    machine.pass_ms(1000)
    assert clock.now_ms() == int(1_000_500 + 152_000 - 1000 * SLEW) and clock.alarmed


def test_a_restart_with_a_clock_set_back_does_not_turn_time_back() -> None:
    machine = Machine()
    assert machine.clock(floor_ms=2_000_000).now_ms() == 2_000_000


OFFSETS = st.none() | st.floats(-1e9, 1e9)


@given(st.lists(st.tuples(st.floats(0, 1e7), st.floats(-1e9, 1e9), OFFSETS), max_size=30))
def test_never_back_and_never_faster_than_the_slew(steps: list[tuple[float, float, float | None]]) -> None:
    machine = Machine()
    clock = machine.clock()
    before = clock.now_ms()
    for passed, jump, offset in steps:
        clock.follow(offset)
        machine.wall += jump
        machine.pass_ms(passed)
        now = clock.now_ms()
        assert now >= before
        assert now - before <= passed * (1 + SLEW) + 1.01
        before = now

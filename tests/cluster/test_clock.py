"""Cluster time: never back, and in jumps only behind another node (H-17)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.clock import SLEW, ClusterClock, SavedTime, decode_saved, encode_saved

YEAR_MS = 365 * 86_400_000.0


class Machine:
    """The two clocks of an operating system."""

    def __init__(self) -> None:
        self.wall = 1_000_000.0
        self.mono = 0.0

    def pass_ms(self, ms: float) -> None:
        self.wall += ms
        self.mono += ms

    def clock(self, saved: SavedTime | None = None, uptime_ms: int = 0, machine: str = "") -> ClusterClock:
        return ClusterClock(lambda: self.wall, lambda: self.mono, saved, uptime_ms, machine)


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


HOUR_MS = 3_600_000.0


@pytest.mark.parametrize("wrong_ms", [-HOUR_MS, HOUR_MS, YEAR_MS])
def test_a_restart_without_a_machine_boot_uses_the_machine_clock(wrong_ms: float) -> None:
    """The process was away for ten minutes, and the wall clock was set meanwhile."""
    machine = Machine()
    saved = SavedTime(1_000_000, 50_000, "boot-1")
    machine.pass_ms(600_000)
    machine.wall += wrong_ms
    clock = machine.clock(saved, 650_000, "boot-1")
    assert clock.known and clock.now_ms() == 1_600_000
    machine.pass_ms(10_000)
    assert abs(clock.now_ms() - 1_610_000) <= 10_000 * SLEW and clock.alarmed


@pytest.mark.parametrize(("uptime_ms", "name"), [(60_000, "boot-2"), (60_000, ""), (49_999, "boot-1")])
def test_after_a_reboot_a_standalone_node_takes_its_wall_clock(uptime_ms: int, name: str) -> None:
    machine = Machine()
    machine.pass_ms(HOUR_MS)
    clock = machine.clock(SavedTime(1_000_000, 50_000, "boot-1" if name else ""), uptime_ms, name)
    assert not clock.known
    clock.trust_wall()
    assert clock.known and clock.now_ms() == 1_000_000 + HOUR_MS


def test_a_restart_with_a_clock_set_back_does_not_turn_time_back() -> None:
    clock = Machine().clock(SavedTime(2_000_000))
    clock.trust_wall()
    assert clock.now_ms() == 2_000_000


@pytest.mark.parametrize("wrong_ms", [-HOUR_MS, HOUR_MS])
def test_a_member_waits_with_the_saved_time_until_it_knows_the_leaders(wrong_ms: float) -> None:
    machine = Machine()
    machine.wall += wrong_ms
    clock = machine.clock(SavedTime(1_000_000))
    machine.pass_ms(500)
    assert clock.now_ms() == 1_000_500
    assert clock.follow(1_600_000.0) == 600_000 - 500 + 500
    assert clock.now_ms() == 1_600_500 and clock.known
    assert clock.follow(1_601_000.0) == 0
    machine.pass_ms(1000)
    assert clock.now_ms() == 1_601_505


@pytest.mark.parametrize("wall_ms", [-HOUR_MS, 0, 1000, 400_000, 600_000, YEAR_MS])
@pytest.mark.parametrize("leader_ms", [-HOUR_MS, 0, 1000, 600_000])
def test_a_machine_that_stood_still_is_set_ahead_as_far_as_the_leader_and_its_wall_clock_say(
    wall_ms: float, leader_ms: float
) -> None:
    machine = Machine()
    clock = machine.clock()
    saves: list[int] = []
    clock.on_set = lambda: saves.append(clock.now_ms())
    clock.follow(1_000_000.0)
    machine.wall += wall_ms
    ahead_ms = min(wall_ms, leader_ms)
    assert clock.follow(1_000_000.0 + leader_ms) == (ahead_ms if ahead_ms > 1000 else 0)
    assert clock.follow(1_000_000.0 + leader_ms) == 0
    now_ms = 1_000_000 + (ahead_ms if ahead_ms > 1000 else 0)
    assert clock.now_ms() == now_ms and saves == [1_000_000] + [now_ms] * (ahead_ms > 1000)


def test_a_process_that_starts_after_its_machine_stood_still_is_set_ahead() -> None:
    """Neither clock of the machine has counted the time: the wall clock was corrected later."""
    machine = Machine()
    clock = machine.clock(SavedTime(1_000_000, 50_000, "boot-1", clusters=True), 50_100, "boot-1")
    machine.wall += HOUR_MS
    assert clock.known and clock.follow(1_000_000 + HOUR_MS) == HOUR_MS - 100


def test_what_a_process_does_not_know_its_successor_does_not_know_either() -> None:
    machine = Machine()
    clock = machine.clock(SavedTime(1_000_000, 50_000, "boot-1"), 200, "boot-2")
    machine.pass_ms(500)
    saved = clock.saved(700, "boot-2")
    assert saved == SavedTime(1_000_500, 700, "") and not machine.clock(saved, 800, "boot-2").known
    clock.follow(1_600_000.0)
    assert clock.saved(700, "boot-2") == SavedTime(1_600_500, 700, "boot-2", clusters=True)


class Member:
    """A node whose processes are killed: each begins with what the one before it has saved."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.disk: SavedTime | None = None
        self.clock = machine.clock()

    def save(self) -> None:
        self.disk = decode_saved(encode_saved(self.clock.saved(int(self.machine.mono), "boot-1")))

    def restart(self) -> None:
        self.machine.pass_ms(200)
        self.clock = self.machine.clock(self.disk, int(self.machine.mono), "boot-1")
        self.clock.on_set = self.save
        self.clock.resume_member()


def test_a_newcomer_that_is_killed_does_not_know_the_time_until_it_has_followed_the_cluster() -> None:
    """Its wall clock is an hour ahead. It is killed before its first lease, and again just behind it."""
    member = Member(Machine())
    member.machine.wall += HOUR_MS
    member.save()
    member.clock.ask_cluster()
    for _ in range(2):
        member.restart()
        assert not member.clock.known
        member.save()
    member.clock.follow(1_600_000.0)
    assert member.clock.now_ms() == 1_600_400, "the cluster's time, although it is earlier"
    member.restart()
    assert member.clock.known and member.clock.now_ms() == 1_600_600


def test_a_founder_saves_that_its_time_is_the_clusters() -> None:
    member = Member(Machine())
    member.clock.on_set = member.save
    member.clock.follow(None)
    member.machine.wall += HOUR_MS
    member.restart()
    assert member.clock.known and member.clock.now_ms() == 1_000_200


def test_a_clock_is_saved_when_it_is_set_and_not_at_each_lease() -> None:
    saves: list[SavedTime] = []
    clock = Machine().clock(SavedTime(1_000_000, clusters=True))
    clock.on_set = lambda: saves.append(clock.saved(700, "boot-1"))
    for _ in range(3):
        clock.follow(1_600_000.0)
    assert saves == [SavedTime(1_600_000, 700, "boot-1", clusters=True)]


def test_a_standalone_node_has_no_clusters_time() -> None:
    clock = Machine().clock(SavedTime(900_000))
    clock.trust_wall()
    assert clock.saved(700, "boot-1") == SavedTime(1_000_000, 700, "boot-1", clusters=False)


def test_a_member_does_not_go_back_behind_the_time_that_it_has_used() -> None:
    clock = Machine().clock(SavedTime(1_000_000))
    assert clock.follow(900_000.0) == 0
    assert clock.now_ms() == 1_000_000


def test_a_newcomer_takes_the_clusters_time_ahead_or_behind() -> None:
    for offset in (900_000.0, 1_100_000.0):
        clock = Machine().clock()
        clock.ask_cluster()
        assert clock.follow(offset) == offset - 1_000_000
        assert clock.now_ms() == offset


@given(st.integers(0, 2**60), st.integers(0, 2**60), st.text("0123456789abcdef-", max_size=36), st.booleans())
def test_the_saved_time_is_read_back(cluster_ms: int, uptime_ms: int, machine: str, clusters: bool) -> None:
    saved = SavedTime(cluster_ms, uptime_ms, machine, clusters)
    assert decode_saved(encode_saved(saved)) == saved


def test_the_format_of_an_earlier_version_is_read() -> None:
    assert decode_saved(None) is None
    assert decode_saved((1_234).to_bytes(8, "big")) == SavedTime(1_234)


OFFSETS = st.none() | st.floats(-1e9, 1e9)


@given(st.lists(st.tuples(st.floats(0, 1e7), st.floats(-1e9, 1e9), OFFSETS), max_size=30))
def test_never_back_and_never_faster_than_the_slew(steps: list[tuple[float, float, float | None]]) -> None:
    machine = Machine()
    clock = machine.clock()
    before = clock.now_ms()
    for passed, jump, offset in steps:
        clock.follow(offset)
        if (now := clock.now_ms()) > before:
            assert offset is not None and now <= min(machine.wall, machine.mono + offset)
            before = now
        machine.wall += jump
        machine.pass_ms(passed)
        now = clock.now_ms()
        assert now >= before
        assert now - before <= passed * (1 + SLEW) + 1.01
        before = now

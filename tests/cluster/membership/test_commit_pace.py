"""When a node calls its disk slow, and for how long."""

from __future__ import annotations

import pytest

from strogoff.cluster.membership.commit_pace import HOLD_MS, LONGEST_MS, WINDOW_MS, CommitPace


class Disk:
    """Commits of one node, one after the other, with 100 ms between them."""

    def __init__(self, patience_ms: int = 500) -> None:
        self.pace = CommitPace()
        self.pace.patience_ms = patience_ms
        self.now_ms = 5_000.0

    def commit(self, took_ms: float, times: int = 1) -> None:
        for _ in range(times):
            self.pace.begin(self.now_ms + 100)
            self.now_ms += 100 + took_ms
            self.pace.end(self.now_ms)

    def wait(self, ms: float) -> None:
        """Quick commits for a while."""
        end = self.now_ms + ms
        while self.now_ms < end:
            self.commit(5)

    @property
    def slow_ms(self) -> int:
        return self.pace.slow_ms(self.now_ms)


def test_a_disk_is_slow_when_slow_commits_have_taken_half_of_the_last_ten_seconds() -> None:
    disk = Disk()
    disk.commit(700, 7)
    assert disk.slow_ms == 0
    disk.commit(700)
    assert disk.slow_ms == 700


@pytest.mark.parametrize("took_ms", [5, 300, 500])
def test_commits_within_the_patience_are_not_slow(took_ms: float) -> None:
    disk = Disk()
    disk.commit(took_ms, 200)
    assert disk.slow_ms == 0


@pytest.mark.parametrize("stall_ms", [1_000, 4_000, 60_000])
def test_single_stalls_make_no_disk_slow(stall_ms: float) -> None:
    """A compaction, or a process that was stopped."""
    disk = Disk()
    for _ in range(10):
        disk.commit(stall_ms)
        assert disk.slow_ms == 0
        disk.wait(WINDOW_MS)


def test_stalls_with_quick_commits_between_them_make_it_slow() -> None:
    disk = Disk()
    for _ in range(3):
        disk.commit(1_900)
        disk.wait(500)
    assert disk.slow_ms == 1_900


def test_one_commit_counts_for_a_limited_time() -> None:
    disk = Disk()
    disk.commit(60_000, 3)
    assert disk.slow_ms == 0, "they are too far apart"
    disk = Disk()
    disk.commit(3_000, 3)
    assert disk.slow_ms == LONGEST_MS


def test_a_disk_is_quick_again_when_it_has_not_been_slow_for_ten_minutes() -> None:
    disk = Disk()
    disk.commit(700, 8)
    disk.wait(HOLD_MS - 1_000)
    assert disk.slow_ms == 700
    disk.wait(1_000)
    assert disk.slow_ms == 0


def test_a_disk_that_is_slow_now_and_then_stays_slow() -> None:
    disk = Disk()
    for took_ms in (700, 900, 700):
        disk.commit(took_ms, 20)
        assert disk.slow_ms == took_ms
        disk.wait(HOLD_MS - 2 * WINDOW_MS)
        assert disk.slow_ms == took_ms


def test_a_commit_that_waited_for_space_is_not_slow() -> None:
    disk = Disk()
    for _ in range(20):
        disk.pace.begin(disk.now_ms)
        assert disk.pace.times and disk.pace.waiting_ms(disk.now_ms + 400) == 400
        disk.pace.void()
        disk.now_ms += 900
        disk.pace.end(disk.now_ms)
        assert not disk.pace.times and disk.pace.waiting_ms(disk.now_ms) == 0
    assert disk.slow_ms == 0


def test_a_process_that_stands_still_again_and_again_is_slow() -> None:
    """Its commits are quick when it runs, and primaries wait for it all the same."""
    disk = Disk(300)
    for pause_ms, times, slow_ms in ((200, 60, 0), (50, 20, 450)):
        for _ in range(times):
            disk.pace.tick(disk.now_ms, pause_ms)
            disk.commit(2)
            disk.now_ms += 398
        assert disk.slow_ms == slow_ms


def test_the_time_of_a_commit_in_which_the_process_stands_still_counts_once() -> None:
    disk = Disk(300)
    disk.pace.tick(disk.now_ms, 50)
    for _ in range(4):
        disk.pace.begin(disk.now_ms)
        disk.now_ms += 1_000
        disk.pace.tick(disk.now_ms, 50)
        disk.pace.end(disk.now_ms)
    assert disk.slow_ms == 0
    disk.pace.begin(disk.now_ms)
    disk.now_ms += 1_000
    disk.pace.end(disk.now_ms)
    assert disk.slow_ms == 1_000


def test_a_standstill_counts_although_a_commit_begins_before_the_tick() -> None:
    """A process that runs again may read a message first, and that begins the commit."""
    disk = Disk(300)
    for _ in range(10):
        disk.pace.tick(disk.now_ms, 50)
        disk.pace.end(disk.now_ms)
        disk.now_ms += 650
        disk.pace.begin(disk.now_ms)
    assert disk.slow_ms == 600


def test_without_patience_no_disk_is_slow() -> None:
    disk = Disk(0)
    disk.commit(900, 100)
    assert disk.slow_ms == 0
    disk = Disk()
    disk.commit(900, 100)
    disk.pace.patience_ms = 0
    assert disk.slow_ms == 0


def test_a_slow_disk_keeps_few_figures() -> None:
    disk = Disk(200)
    disk.commit(201, 5_000)
    assert disk.slow_ms == 201 and len(disk.pace._slow) < WINDOW_MS / 200

"""The log of dots."""

from __future__ import annotations

from strogoff.cluster.replicated_map.dot_log import DotLog


def test_in_order_whatever_the_order_of_arrival() -> None:
    log = DotLog()
    for counter in (3, 1, 5, 4, 4):
        log.add(0, counter, b"k%d" % counter)
    assert log.between(0, 1, 4, 10) == [(3, b"k3"), (4, b"k4")]
    assert log.between(0, 0, 9, 2) == [(1, b"k1"), (3, b"k3")]
    assert len(log) == 4


def test_trimming_raises_the_floor_as_far_as_it_went() -> None:
    log = DotLog()
    for counter in range(1, 11):
        log.add(0, counter, b"k")
    assert [counter for counter, _ in log.trim(0, 6, 4)] == [1, 2, 3, 4]
    assert log.floor[0] == 4
    assert [counter for counter, _ in log.trim(0, 6, 4)] == [5, 6]
    assert log.floor[0] == 6
    log.add(0, 5, b"late")
    assert log.between(0, 0, 10, 10)[0][0] == 7


def test_a_trimmed_row_gives_its_memory_back() -> None:
    log = DotLog()
    for counter in range(1, 20_001):
        log.add(0, counter, b"k")
    while log.trim(0, 19_000, 1000):
        pass
    assert len(log) == 1000
    assert len(log._rows[0].keys) < 10_000
    log.trim(0, 20_000, 5000)
    assert log.actors == []


def test_forget() -> None:
    log = DotLog()
    log.add(0, 1, b"k")
    log.raise_floor(0, 1)
    log.forget(0)
    assert (len(log), log.floor) == (0, {})

"""A queue of many publishers: it keeps the order of each publisher and gives each an equal share of the bytes."""

from __future__ import annotations

from random import Random

import pytest

from strogoff.broker.clustering.fair_queue import FairQueue
from tests.harness.thinning import thinned


def test_a_quiet_publisher_is_served_next() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(1000):
        queue.put("flood", 100, f"flood {number}")
    assert queue.take(500) == [f"flood {number}" for number in range(5)]
    queue.put("other", 100, "other 0")
    assert queue.take(200) == ["other 0", "flood 5"]
    assert (queue.items, queue.size_bytes, queue.waits_of("flood"), queue.waits_of("other")) == (994, 99_400, 99_400, 0)


def test_turns_are_by_bytes() -> None:
    """Publishers of large and of small messages get the same number of bytes, not of messages."""
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for number in range(100):
        queue.put("large", 1000, ("large", number))
        queue.put("small", 100, ("small", number))
    taken = queue.take(10_000)
    assert [number for who, number in taken if who == "large"] == list(range(5))
    assert [number for who, number in taken if who == "small"] == list(range(50))


def test_publishers_of_equal_messages_are_served_in_turn() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(3):
        for who in "abc":
            queue.put(who, 10, f"{who}{number}")
    assert queue.take(10_000) == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]
    assert queue.take(1) == [] and queue.items == queue.size_bytes == 0


def test_a_publisher_keeps_its_used_share_between_messages() -> None:
    """A publisher that puts one message at a time gets no more than its share."""
    queue: FairQueue[str] = FairQueue()
    for _ in range(100):
        queue.put("many", 10, "many")
    came = []
    for _ in range(10):
        queue.put("single", 1000, "single")
        came += queue.take(100)
    assert came.count("single") <= 2


@pytest.mark.parametrize("seed", thinned(range(20), 5))
def test_any_order_of_puts_and_takes(seed: int) -> None:
    """No item is lost or doubled, the order of each publisher is kept, and the sums are right."""
    rng = Random(seed)
    queue: FairQueue[tuple[int, int]] = FairQueue()
    put: list[tuple[int, int]] = []
    sizes: dict[tuple[int, int], int] = {}
    taken: list[tuple[int, int]] = []
    for number in range(2000):
        if rng.random() < 0.6:
            item = (rng.randrange(5), number)
            sizes[item] = rng.randrange(1, 300)
            queue.put(item[0], sizes[item], item)
            put.append(item)
        elif rng.random() < 0.5:
            limit = rng.randrange(1, 1000)
            some = queue.take(limit)
            assert sum(sizes[item] for item in some[:-1]) < limit
            taken += some
        left = [item for item in put if item not in set(taken)] if number % 100 == 0 else None
        if left is not None:
            assert sorted(queue) == sorted(left) and queue.items == len(left)
            assert queue.size_bytes == sum(sizes[item] for item in left)
            for who in range(5):
                assert queue.waits_of(who) == sum(sizes[item] for item in left if item[0] == who)
    taken += queue.take(queue.size_bytes)
    for who in range(5):
        assert [item for item in taken if item[0] == who] == [item for item in put if item[0] == who]
    assert queue.items == queue.size_bytes == 0 and list(queue) == []


def test_two_busy_publishers_get_the_same_bytes() -> None:
    rng = Random(1)
    queue: FairQueue[tuple[str, int]] = FairQueue()
    got = {"a": 0, "b": 0}
    for who, largest in (("a", 50), ("b", 5000)):
        while queue.waits_of(who) < 1_000_000:
            size = rng.randrange(1, largest)
            queue.put(who, size, (who, size))
    for _ in range(500):
        for who, size in queue.take(1000):
            got[who] += size
        assert abs(got["a"] - got["b"]) <= 6000

"""Contexts of single keys beyond the clock."""

from __future__ import annotations

from strogoff.cluster.metadata.actors import Actors, dot_of
from strogoff.cluster.metadata.ahead import Ahead
from strogoff.cluster.metadata.clock import Clock


def clock_to(actors: Actors, **counters: int) -> Clock:
    clock = Clock(actors)
    for node, counter in counters.items():
        clock.add(actors.number(node, 1), 0, counter)
    return clock


def test_it_covers_until_the_clock_has_caught_up() -> None:
    actors = Actors()
    ahead, clock = Ahead(actors), clock_to(actors, a=3)
    ahead.note([b"k"], clock_to(actors, a=5))
    ahead.note([b"k"], clock_to(actors, b=2))
    assert ahead.covers(b"k", dot_of(actors.number("a", 1), 5))
    assert ahead.covers(b"k", dot_of(actors.number("b", 1), 1))
    assert not ahead.covers(b"other", dot_of(actors.number("a", 1), 5))
    for _ in range(3):
        ahead.retire(clock)
    assert len(ahead) == 1
    context = ahead.context(b"k")
    assert context is not None
    assert context.dominates(clock_to(actors, a=5, b=2))
    clock.join(context)
    ahead.retire(clock)
    ahead.retire(clock)
    assert len(ahead) == 0


def test_steady_traffic_does_not_keep_old_entries() -> None:
    actors = Actors()
    ahead, clock = Ahead(actors), clock_to(actors, a=0)
    for counter in range(1, 1000):
        ahead.note([b"k%d" % counter], clock_to(actors, a=counter + 1))
        clock.add(actors.number("a", 1), counter - 1, counter)
        ahead.retire(clock)
    assert len(ahead) < 10


def test_keys_that_shared_a_context_share_the_next_one() -> None:
    actors = Actors()
    ahead = Ahead(actors)
    keys = [b"k%d" % number for number in range(100)]
    for number in range(5):
        ahead.note(keys, clock_to(actors, a=number + 1, b=5 - number))
    contexts = [ahead.context(key) for key in keys]
    assert all(each is contexts[0] for each in contexts)
    assert contexts[0] is not None
    assert contexts[0].dominates(clock_to(actors, a=5, b=5))

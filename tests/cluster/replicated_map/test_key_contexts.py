"""Contexts of single keys that are ahead of the clock."""

from __future__ import annotations

from strogoff.cluster.replicated_map.actors import Actors, dot_of
from strogoff.cluster.replicated_map.key_contexts import KeyContexts
from strogoff.cluster.replicated_map.version_vector import VersionVector


def clock_to(actors: Actors, **counters: int) -> VersionVector:
    clock = VersionVector(actors)
    for node, counter in counters.items():
        clock.add(actors.number(node, 1), 0, counter)
    return clock


def test_a_context_covers_until_the_clock_has_caught_up() -> None:
    actors = Actors()
    key_contexts, clock = KeyContexts(actors), clock_to(actors, a=3)
    key_contexts.note([b"k"], clock_to(actors, a=5))
    key_contexts.note([b"k"], clock_to(actors, b=2))
    assert key_contexts.covers(b"k", dot_of(actors.number("a", 1), 5))
    assert key_contexts.covers(b"k", dot_of(actors.number("b", 1), 1))
    assert not key_contexts.covers(b"other", dot_of(actors.number("a", 1), 5))
    for _ in range(3):
        key_contexts.retire(clock)
    assert len(key_contexts) == 1
    context = key_contexts.context(b"k")
    assert context is not None
    assert context.dominates(clock_to(actors, a=5, b=2))
    clock.join(context)
    key_contexts.retire(clock)
    key_contexts.retire(clock)
    assert len(key_contexts) == 0


def test_steady_traffic_does_not_keep_old_entries() -> None:
    actors = Actors()
    key_contexts, clock = KeyContexts(actors), clock_to(actors, a=0)
    for counter in range(1, 1000):
        key_contexts.note([b"k%d" % counter], clock_to(actors, a=counter + 1))
        clock.add(actors.number("a", 1), counter - 1, counter)
        key_contexts.retire(clock)
    assert len(key_contexts) < 10


def test_keys_that_shared_a_context_share_the_next_one() -> None:
    actors = Actors()
    key_contexts = KeyContexts(actors)
    keys = [b"k%d" % number for number in range(100)]
    for number in range(5):
        key_contexts.note(keys, clock_to(actors, a=number + 1, b=5 - number))
    contexts = [key_contexts.context(key) for key in keys]
    assert all(each is contexts[0] for each in contexts)
    assert contexts[0] is not None
    assert contexts[0].dominates(clock_to(actors, a=5, b=5))


def test_a_context_that_was_noted_for_no_key_is_remembered() -> None:
    """A peer's walk drops values: the clock tells what is there only when it has seen what the peer had."""
    actors = Actors()
    key_contexts, clock = KeyContexts(actors), clock_to(actors, a=1, b=1)
    assert key_contexts.covered_by(clock)
    key_contexts.note([b"k"], clock_to(actors, a=1))
    key_contexts.retire(clock)
    key_contexts.note([], clock_to(actors, a=5))
    key_contexts.retire(clock)
    key_contexts.note([b"l"], clock_to(actors, b=1))
    for _ in range(3):
        key_contexts.retire(clock)
    assert not key_contexts.covered_by(clock)
    clock.join(clock_to(actors, a=5))
    for _ in range(3):
        assert key_contexts.covered_by(clock)
        key_contexts.retire(clock)
    assert len(key_contexts) == 0

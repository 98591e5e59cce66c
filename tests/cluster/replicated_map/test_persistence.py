"""The durable half is saved and loaded."""

from __future__ import annotations

import pytest

from strogoff.cluster.replicated_map.actors import Actors, dot_of
from strogoff.cluster.replicated_map.persistence import Persistence
from strogoff.cluster.replicated_map.replica import Replica
from strogoff.cluster.replicated_map.version_vector import VersionVector
from strogoff.sim.engine.loop import VirtualLoop
from strogoff.storage.engine import Corrupted
from strogoff.storage.memory import VolatileMemoryEngine
from strogoff.storage.store import Store


def opened(store: Store) -> tuple[Replica, Persistence, Actors]:
    actors = Actors()
    actors.number("somebody", 4)
    replica = Replica(actors, lambda *change: None)
    return replica, Persistence(store, replica, actors), actors


@pytest.fixture
def store() -> Store:
    loop = VirtualLoop()
    return Store(VolatileMemoryEngine(loop.call_soon), loop.call_soon, loop.call_later)


def test_a_round_trip_changes_nothing(store: Store) -> None:
    replica, durable, actors = opened(store)
    a = actors.number("a", 1)
    replica.write(b"tx", dot_of(a, 1), b"value")
    replica.write(b"ty", dot_of(a, 2), None)
    replica.log.raise_floor(a, 1)
    key_context = VersionVector(actors)
    key_context.add(actors.number("b", 1), 0, 9)
    replica.key_contexts.note([b"tx", b"tz"], key_context)
    for key in (b"tx", b"ty", b"tz"):
        durable.save_key(key)
    replica.fold("c", 2)
    durable.save_clock()

    again, durable, numbers = opened(store)
    durable.load()
    a = numbers.number("a", 1)
    assert again.siblings(b"tx") == (dot_of(a, 1), b"value")
    assert again.siblings(b"ty") == (dot_of(a, 2), None)
    assert (again.keys, again.tombstones) == (1, 1)
    assert again.clock.seen == {a: [0, 2]}
    assert again.clock.folded == again.clock.forgotten == {"c": 2}
    assert again.log.floor == {a: 1}
    assert again.log.between(a, 0, 9, 9) == [(2, b"ty")]
    assert again.key_contexts.covers(b"tz", dot_of(numbers.number("b", 1), 9))


def test_a_removed_key_leaves_nothing_on_disk(store: Store) -> None:
    replica, durable, actors = opened(store)
    a = actors.number("a", 1)
    replica.write(b"tx", dot_of(a, 1), None)
    durable.save_key(b"tx")
    replica.collect(a, 1, 10)
    durable.save_key(b"tx")
    assert store.get(b"dtx") is None


def test_a_folded_actor_leaves_the_disk(store: Store) -> None:
    replica, durable, actors = opened(store)
    replica.write(b"tx", dot_of(actors.number("a", 1), 1), b"v")
    durable.save_clock()
    replica.fold("a", 1)
    durable.save_clock()
    assert len(store.keys(b"d\0", b"d\1")) == 0
    assert len(store.keys(b"d\1", b"d\2")) == 1


def test_a_record_that_cannot_be_read_is_named(store: Store) -> None:
    store.put(b"dtx", b"\xc1")
    _, durable, _ = opened(store)
    with pytest.raises(Corrupted, match="dtx"):
        durable.load()

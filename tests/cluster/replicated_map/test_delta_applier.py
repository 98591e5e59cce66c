"""Applying the parts of an exchange to a replica."""

from __future__ import annotations

from strogoff.cluster.replicated_map.actors import Actors, dot_of
from strogoff.cluster.replicated_map.delta_applier import DeltaApplier
from strogoff.cluster.replicated_map.messages import Item, Part
from strogoff.cluster.replicated_map.replica import BUCKETS, Replica


def part(low: int, high: int, seen: int | None = None) -> Part:
    items = [Item(b"k%d" % counter, [0, counter], [b"v"]) for counter in range(low + 1, high + 1)]
    return Part(1, [("a", 1)], [[0, seen or high]], {}, items, [(0, low, high)])


def test_parts_in_order_advance_the_clock() -> None:
    actors = Actors()
    replica, incoming = Replica(actors, lambda *change: None), DeltaApplier(actors)
    assert incoming.absorb(replica, part(0, 3)) == [b"k1", b"k2", b"k3"]
    assert not incoming.gap
    assert replica.clock.base(0) == 3
    assert incoming.absorb(replica, part(0, 3)) == [], "twice is once"


def test_values_beyond_a_gap_are_applied_but_not_acknowledged() -> None:
    """H-04: a cumulative acknowledgement proves everything up to it."""
    actors = Actors()
    replica, incoming = Replica(actors, lambda *change: None), DeltaApplier(actors)
    incoming.absorb(replica, part(3, 5))
    assert incoming.gap
    assert replica.siblings(b"k4") == (dot_of(0, 4), b"v")
    assert replica.clock.base(0) == 0
    incoming.absorb(replica, part(5, 6))
    assert replica.clock.seen[0] == [3, 6]
    incoming.absorb(replica, part(0, 3, seen=6))
    assert replica.clock.base(0) == 6


def test_dots_that_cannot_be_claimed_yet_are_noted() -> None:
    actors = Actors()
    replica, incoming = Replica(actors, lambda *change: None), DeltaApplier(actors)
    incoming.absorb(
        replica, Part(1, [("a", 1), ("b", 1)], [[0, 1], [0, 9]], {}, [Item(b"k", [0, 1], [b"v"])], [(0, 0, 1)])
    )
    assert replica.key_contexts.covers(b"k", dot_of(actors.number("b", 1), 9))
    incoming.absorb(replica, Part(1, [("b", 1)], [[0, 9]], {}, [Item(b"k", [0, 9], [b"old"])], [(0, 0, 9)]))
    assert replica.siblings(b"k") == (dot_of(actors.number("a", 1), 1), b"v")


def test_boots_in_a_context_can_be_folded() -> None:
    """All nodes that had seen those boots may have restarted: no other message names the boots, and the context must be
    dropped.
    """
    actors = Actors()
    replica, incoming = Replica(actors, lambda *change: None), DeltaApplier(actors)
    replica.clock.add(actors.number("b", 5), 0, 0)
    item = Item(b"k", [0, 1], [b"v"])
    incoming.absorb(replica, Part(1, [("a", 1), ("b", 4)], [[0, 1], [0, 9]], {"b": 3}, [item], [(0, 0, 1)]))
    assert len(replica.key_contexts) == 1
    assert replica.clock.foldable([replica.clock.copy()]) == [("b", 3), ("b", 4)]
    replica.fold("b", 4)
    incoming.absorb(replica, Part(1, [("a", 1)], [[0, 2]], {}, [], [(0, 1, 2)]))
    incoming.absorb(replica, Part(1, [("a", 1)], [[0, 3]], {}, [], [(0, 2, 3)]))
    assert len(replica.key_contexts) == 0


def test_a_replica_is_settled_when_it_has_seen_all_that_was_merged() -> None:
    """In the middle of a peer's walk it has dropped a value, and has not seen the write that deleted it. The last part
    covers that one."""
    actors = Actors()
    replica, incoming = Replica(actors, lambda *change: None), DeltaApplier(actors)
    incoming.absorb(replica, part(0, 2))
    assert replica.settled
    incoming.absorb(replica, Part(1, [("a", 1)], [[0, 3]], {}, buckets=(0, BUCKETS)))
    assert replica.siblings(b"k1") == () and not replica.settled
    incoming.absorb(replica, Part(1, [("b", 1)], [[0, 1]], {}, [], [(0, 0, 1)]))
    assert not replica.settled, "another actor"
    incoming.absorb(replica, Part(1, [("a", 1)], [[0, 3]], {}, [], [(0, 0, 3)]))
    assert replica.settled


def test_a_replica_with_values_of_several_peers_waits_for_all_of_them() -> None:
    actors = Actors()
    replica, incoming = Replica(actors, lambda *change: None), DeltaApplier(actors)
    for name in ("a", "b"):
        incoming.absorb(replica, Part(1, [(name, 1)], [[0, 3]], {}, [Item(b"k", [0, 1], [b"v"])]))
    for name in ("a", "b"):
        assert not replica.settled
        incoming.absorb(replica, Part(1, [(name, 1)], [[0, 3]], {}, [], [(0, 0, 3)]))
    assert replica.settled

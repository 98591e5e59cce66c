"""Selecting the writes that a peer lacks, from the log or by a walk through all buckets."""

from __future__ import annotations

import pytest

from strogoff.cluster.replicated_map.actors import Actors, dot_of
from strogoff.cluster.replicated_map.delta_applier import DeltaApplier
from strogoff.cluster.replicated_map.delta_sender import DeltaSender
from strogoff.cluster.replicated_map.messages import Item, Part
from strogoff.cluster.replicated_map.replica import Replica
from strogoff.cluster.replicated_map.version_vector import VersionVector


def filled(actors: Actors, count: int) -> Replica:
    replica = Replica(actors, lambda *change: None)
    me = actors.number("a", 1)
    for counter in range(1, count + 1):
        replica.write(b"k%d" % counter, dot_of(me, counter), b"v%d" % counter)
    return replica


def steps(outgoing: DeltaSender) -> list[Part]:
    parts = []
    while (part := outgoing.step()) is not None:
        parts.append(part)
    return parts


def test_equal_clocks_look_at_no_key() -> None:
    replica = filled(Actors(), 50)
    outgoing = DeltaSender(1, replica, replica.clock.copy())
    assert outgoing.empty
    assert steps(outgoing) == []
    assert outgoing.keys_compared == 0


def test_only_keys_of_missing_dots_are_sent() -> None:
    actors = Actors()
    replica = filled(actors, 50)
    theirs = VersionVector(actors)
    theirs.add(0, 0, 40)
    outgoing = DeltaSender(1, replica, theirs, step_keys=4)
    parts = steps(outgoing)
    assert [len(part.items) for part in parts] == [4, 4, 2]
    assert [part.covered_ranges for part in parts] == [[], [], [(0, 40, 50)]], "claimed when all has come"


@pytest.mark.parametrize("trimmed", [0, 30, 50])
def test_a_peer_that_knows_nothing_gets_everything(trimmed: int) -> None:
    actors = Actors()
    replica, other = filled(actors, 50), Replica(actors, lambda *change: None)
    replica.collect(0, trimmed, 1000)
    outgoing = DeltaSender(1, replica, other.clock, step_keys=10)
    assert outgoing.walks == bool(trimmed)
    incoming = DeltaApplier(actors)
    for part in steps(outgoing):
        incoming.absorb(other, part)
    assert dict(other.walk()) == dict(replica.walk())
    assert other.clock == replica.clock
    assert other.log.floor.get(0, 0) == trimmed
    other.key_contexts.retire(other.clock)
    assert len(other.key_contexts) == 0


def test_a_node_that_got_a_full_walk_gives_full_walks() -> None:
    """It has seen an early boot, and was told that a later one is folded, but not how many writes that boot had."""
    actors = Actors()
    early, late, latest = [actors.number("a", boot) for boot in (1, 2, 3)]
    replica, first, second = [Replica(actors, lambda *change: None) for _ in range(3)]
    for each in (replica, first, second):
        each.write(b"early", dot_of(early, 1), b"v")
    replica.write(b"late", dot_of(late, 1), b"v")
    replica.clock.add(latest, 0, 0)
    replica.fold("a", 2)
    incoming = DeltaApplier(actors)
    for source, target in ((replica, first), (first, second)):
        for part in steps(DeltaSender(0, source, target.clock)):
            incoming.absorb(target, part)
        assert dict(target.walk()) == dict(replica.walk())


def test_a_full_walk_removes_keys_deleted_here() -> None:
    actors = Actors()
    replica = filled(actors, 5)
    other = Replica(actors, lambda *change: None)
    incoming = DeltaApplier(actors)
    for part in steps(DeltaSender(1, replica, other.clock)):
        incoming.absorb(other, part)
    replica.write(b"k3", dot_of(0, 6), None)
    replica.collect(0, 6, 100)
    assert replica.tombstones == 0
    outgoing = DeltaSender(1, replica, other.clock)
    parts = steps(outgoing)
    assert outgoing.walks
    assert not any(item.values for part in parts for item in part.items), "values that it has are not sent again"
    for part in parts:
        incoming.absorb(other, part)
    assert other.siblings(b"k3") == ()
    assert dict(other.walk()) == dict(replica.walk())


@pytest.mark.parametrize("trimmed", [0, 10])
def test_boots_folded_during_a_walk_are_not_claimed(trimmed: int) -> None:
    """A node that lost its disk is not asked whether a boot may be folded; the log of that boot is dropped before it is
    sent.
    """
    actors = Actors()
    replica, other = filled(actors, 50), Replica(actors, lambda *change: None)
    replica.collect(0, trimmed, 1000)
    replica.write(b"later", dot_of(actors.number("a", 2), 1), b"v")
    replica.fold("b", 3)
    incoming = DeltaApplier(actors)
    outgoing = DeltaSender(0, replica, other.clock.copy(), step_keys=10)
    for _ in range(3):
        part = outgoing.step()
        assert part is not None
        incoming.absorb(other, part)
    replica.fold("a", 1)
    for each in (outgoing, DeltaSender(0, replica, other.clock.copy())):
        for part in steps(each):
            incoming.absorb(other, part)
    assert dict(other.walk()) == dict(replica.walk())
    assert other.clock == replica.clock


def test_writes_folded_during_an_absence_are_removed_from_the_absent_node() -> None:
    """Only this node has the last write of an early boot. Nodes that folded that boot take the write for seen and
    replaced, so they cannot get it back: without a walk through all keys the nodes would disagree for ever.
    """
    actors = Actors()
    early, late = actors.number("a", 1), actors.number("a", 2)
    replica, away = filled(actors, 4), filled(actors, 4)
    away.write(b"k5", dot_of(early, 5), b"v")
    for each in (replica, away):
        each.clock.add(late, 0, 0)
    replica.fold("a", 1)
    incoming = DeltaApplier(actors)
    for source, target in ((away, replica), (replica, away)):
        for part in steps(DeltaSender(1, source, target.clock)):
            incoming.absorb(target, part)
    assert dict(away.walk()) == dict(replica.walk())
    assert away.clock == replica.clock


def overtaken(actors: Actors) -> tuple[Replica, Replica, DeltaApplier]:
    """The writer of the old value of `k`, and a third node that has b's newer value and never saw the old one."""
    old, third = (Replica(actors, lambda *change: None) for _ in range(2))
    old.write(b"k", dot_of(actors.number("a", 1), 1), b"old")
    newer = Item(b"k", [0, 1], [b"new"])
    incoming = DeltaApplier(actors)
    incoming.absorb(third, Part(1, [("b", 1), ("a", 1)], [[0, 1], [0, 1]], {}, [newer], [(0, 0, 1)]))
    assert third.clock.base(actors.number("a", 1)) == 0
    return old, third, incoming


@pytest.mark.parametrize("walks", [False, True])
def test_the_context_of_a_key_is_passed_on_with_it(walks: bool) -> None:
    """A third node gets the newest write before the one that it replaced, and passes it on to the writer of the old
    one.
    """
    actors = Actors()
    old, third, incoming = overtaken(actors)
    b = actors.number("b", 1)
    if walks:
        third.collect(b, 1, 1000)
    outgoing = DeltaSender(1, third, old.clock.copy())
    assert outgoing.walks == walks
    for part in steps(outgoing):
        incoming.absorb(old, part)
    assert old.siblings(b"k") == (dot_of(b, 1), b"new")


def test_the_context_of_a_key_is_passed_on_with_its_replacement() -> None:
    """The third node writes: its write replaces a value that had replaced an unseen one."""
    actors = Actors()
    old, third, incoming = overtaken(actors)
    dot = dot_of(actors.number("c", 1), 1)
    third.write(b"k", dot, b"newest")
    for part in steps(DeltaSender(1, third, old.clock.copy())):
        incoming.absorb(old, part)
    assert old.siblings(b"k") == (dot, b"newest")

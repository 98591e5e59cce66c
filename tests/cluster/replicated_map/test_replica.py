"""One half of the map."""

from __future__ import annotations

from strogoff.cluster.replicated_map.actors import Actors, dot_of
from strogoff.cluster.replicated_map.dvv import NOTHING, Siblings
from strogoff.cluster.replicated_map.replica import Replica
from strogoff.cluster.replicated_map.version_vector import VersionVector


def made() -> tuple[Replica, Actors, list[tuple[bytes, Siblings, Siblings]]]:
    actors = Actors()
    changes: list[tuple[bytes, Siblings, Siblings]] = []
    return Replica(actors, lambda *change: changes.append(change)), actors, changes


def context(actors: Actors, counter: int, node: str = "b") -> VersionVector:
    clock = VersionVector(actors)
    clock.add(actors.number(node, 1), 0, counter)
    return clock


def test_a_write_replaces_the_local_copies_and_is_counted() -> None:
    replica, actors, changes = made()
    a = actors.number("a", 1)
    replica.write(b"k", dot_of(a, 1), b"one")
    replica.write(b"k", dot_of(a, 2), b"three")
    assert replica.siblings(b"k") == (dot_of(a, 2), b"three")
    assert (replica.keys, replica.tombstones, replica.bytes) == (1, 0, 6)
    assert (replica.made(b"k"), replica.made(b"j")) == ({a: 1}, {})
    replica.write(b"k", dot_of(a, 3), None)
    assert (replica.keys, replica.tombstones) == (0, 1)
    assert [after for _, _, after in changes][-1] == (dot_of(a, 3), None)
    assert not replica.collect(a, 3, 10)
    assert (replica.siblings(b"k"), replica.tombstones, replica.bytes, replica.made(b"k")) == (NOTHING, 0, 0, {})
    assert replica.held == {}


def test_concurrent_copies_stay_side_by_side_and_old_ones_do_not_come_back() -> None:
    replica, actors, _ = made()
    a, b = actors.number("a", 1), actors.number("b", 1)
    replica.write(b"k", dot_of(a, 1), b"mine")
    theirs = (dot_of(b, 1), b"theirs")
    assert replica.merge(b"k", theirs, context(actors, 1))
    replica.mark(b"k", [dot_of(b, 1)])
    assert replica.siblings(b"k")[1::2] == (b"mine", b"theirs")
    replica.write(b"k", dot_of(a, 2), b"last")
    assert not replica.merge(b"k", theirs, context(actors, 1)), "our clock has seen it"


def test_a_key_context_ahead_of_the_clock_hides_older_writes() -> None:
    """B replaced a write of C that this node gets only later: the write must not be resurrected."""
    replica, actors, _ = made()
    b, c = actors.number("b", 1), actors.number("c", 1)
    seen = context(actors, 1)
    seen.join(context(actors, 1, "c"))
    replica.merge(b"k", (dot_of(b, 1), b"new"), seen)
    replica.key_contexts.note([b"k"], seen)
    replica.merge(b"k", (dot_of(c, 1), b"old"), context(actors, 1, "c"))
    assert replica.siblings(b"k") == (dot_of(b, 1), b"new")


def test_forgotten_without_a_trace() -> None:
    replica, actors, _ = made()
    a = actors.number("a", 1)
    replica.write(b"k", dot_of(a, 1), b"v")
    replica.forget(b"k", dot_of(a, 1))
    assert not replica.merge(b"k", (dot_of(a, 1), b"v"), context(actors, 1, "a"))


def test_a_walk_goes_through_all_buckets() -> None:
    replica, actors, _ = made()
    a = actors.number("a", 1)
    for number in range(200):
        replica.write(b"k%d" % number, dot_of(a, number + 1), b"v")
    assert len(dict(replica.walk())) == 200


def test_a_fold_removes_the_deletions() -> None:
    replica, actors, _ = made()
    a = actors.number("a", 1)
    replica.write(b"k", dot_of(a, 1), None)
    replica.fold("a", 1)
    assert (replica.tombstones, len(replica.log), replica.clock.seen) == (0, 0, {})
    assert replica.clock.covers(dot_of(a, 1))


def test_a_deletion_that_all_members_have_seen_does_not_stay() -> None:
    """A walk has raised the floor of an emptied node. Another peer, which has not compacted yet, sends the deletion."""
    replica, actors, _ = made()
    b = actors.number("b", 1)
    replica.merge(b"k", (dot_of(b, 2), b"old"), context(actors, 2))
    replica.mark(b"k", [dot_of(b, 2)])
    replica.log.raise_floor(b, 3)
    for counter, left in ((3, 0), (4, 1)):
        deletion = (dot_of(b, counter), None)
        replica.merge(b"k", deletion, context(actors, counter))
        replica.mark(b"k", [dot_of(b, counter)])
        assert (replica.keys, replica.tombstones) == (0, left)
    assert replica.clock.covers(dot_of(b, 3))
    replica.merge(b"j", (dot_of(b, 1), b"value"), context(actors, 1))
    replica.mark(b"j", [dot_of(b, 1)])
    assert replica.keys == 1, "a value stays"


def test_the_digest_is_the_same_for_the_same_values_at_all_nodes() -> None:
    """In whatever order they came, and whatever numbers the actors have there. Deletions do not count."""
    one, at_one, _ = made()
    other, at_other, _ = made()
    at_other.number("z", 9)
    a, b = at_one.number("a", 1), at_one.number("b", 1)
    for dot, key in ((dot_of(a, 1), b"k"), (dot_of(b, 1), b"l"), (dot_of(a, 2), b"m")):
        one.merge(key, (dot, b"v"), context(at_one, 0))
    b, a = at_other.number("b", 1), at_other.number("a", 1)
    for dot, key in ((dot_of(a, 2), b"m"), (dot_of(a, 1), b"k"), (dot_of(a, 7), b"n"), (dot_of(b, 1), b"l")):
        other.merge(key, (dot, b"v"), context(at_other, 0))
    assert one.digest != other.digest
    other.write(b"n", dot_of(a, 8), None)
    assert one.digest == other.digest != 0
    other.collect(a, 8, 10)
    assert one.digest == other.digest
    for key in (b"k", b"l", b"m"):
        one.forget(key, one.siblings(key)[0])
    assert one.digest == 0


def test_the_digest_knows_which_key_has_which_value() -> None:
    one, at_one, _ = made()
    other, at_other, _ = made()
    for replica, actors, keys in ((one, at_one, b"kl"), (other, at_other, b"lk")):
        for number, key in enumerate(keys, 1):
            replica.write(bytes([key]), dot_of(actors.number("a", 1), number), b"v")
    assert one.digest != other.digest


def test_the_digest_leaves_out_what_nodes_forget_by_themselves() -> None:
    actors = Actors()
    replica = Replica(actors, lambda *_: None, b"k")
    replica.write(b"k1", dot_of(actors.number("a", 1), 1), b"v")
    assert replica.digest == 0
    replica.write(b"l1", dot_of(actors.number("a", 1), 2), b"v")
    assert replica.digest != 0


def test_a_restart_restores_the_digest() -> None:
    replica, actors, _ = made()
    replica.write(b"k", dot_of(actors.number("a", 1), 1), b"v")
    restored, others, _ = made()
    others.number("z", 1)
    restored.restore(b"k", (dot_of(others.number("a", 1), 1), b"v"))
    assert restored.digest == replica.digest

"""Which writes of a node give way to those of others."""

from __future__ import annotations

from strogoff.cluster.replicated_map.actors import Actors, dot_of
from strogoff.cluster.replicated_map.dvv import Siblings
from strogoff.cluster.replicated_map.replica import Replica
from strogoff.cluster.replicated_map.unacknowledged import Unacknowledged
from strogoff.cluster.replicated_map.version_vector import VersionVector


class Writes:
    """The half of a map of node a, which has written some keys, and of which a peer has the first write."""

    def __init__(self, *keys: bytes) -> None:
        self.actors = Actors()
        self.replica = Replica(self.actors, lambda key, before, after: None)
        self.mine, self.other = self.actors.number("a", 1), self.actors.number("b", 1)
        for counter, key in enumerate(keys, 1):
            self.replica.write(key, dot_of(self.mine, counter), b"mine")
        self.peer = VersionVector(self.actors)
        self.peer.add(self.mine, 0, 1)
        self.replaced: list[tuple[bytes, Siblings]] = []
        self.unacknowledged = Unacknowledged(
            "a", self.replica, self.actors, lambda key: key != b"route", lambda *each: self.replaced.append(each)
        )
        self.unacknowledged.when = lambda peer: peer == "b"

    def learn(self, key: bytes, counter: int, value: bytes | None) -> None:
        """Node b wrote this key without knowing what a wrote."""
        clock = VersionVector(self.actors)
        clock.add(self.other, 0, counter)
        self.replica.merge(key, (dot_of(self.other, counter), value), clock)


def test_a_write_that_a_peer_lacks_gives_way_to_a_concurrent_one() -> None:
    writes = Writes(b"known", b"put", b"deleted", b"alone", b"route")
    for counter, (key, value) in enumerate([(b"known", b"x"), (b"put", b"y"), (b"deleted", None), (b"route", b"z")], 1):
        writes.learn(key, counter, value)
    writes.unacknowledged.compared("c", writes.peer, learned=True)
    writes.unacknowledged.compared("b", writes.peer, learned=False)
    assert writes.replaced == []
    writes.unacknowledged.compared("b", writes.peer, learned=True)
    assert writes.replaced == [
        (b"put", (dot_of(writes.other, 2), b"y")),
        (b"deleted", (dot_of(writes.other, 3), None)),
    ]


def test_nothing_gives_way_after_a_lease() -> None:
    writes = Writes(b"known", b"put")
    writes.learn(b"put", 1, b"y")
    writes.unacknowledged.note_range(writes.mine, 1, 2)
    assert len(writes.unacknowledged.give_way()) == 1
    writes.unacknowledged.clear()
    assert writes.unacknowledged.give_way() == []


def test_a_write_that_was_replaced_does_not_count() -> None:
    writes = Writes(b"known", b"put", b"put")
    writes.learn(b"put", 1, b"y")
    writes.unacknowledged.note_range(writes.mine, 1, 2)
    assert writes.unacknowledged.give_way() == []


def test_values_that_do_not_all_give_way() -> None:
    writes = Writes(b"known", b"put")
    writes.learn(b"put", 1, None)
    mine, siblings = dot_of(writes.mine, 2), writes.replica.siblings(b"put")
    assert not writes.unacknowledged.all_give_way("b", siblings), "written since"
    writes.unacknowledged.note_range(writes.mine, 1, 2)
    assert writes.unacknowledged.all_give_way("b", siblings)
    assert not writes.unacknowledged.all_give_way("c", siblings)
    assert not writes.unacknowledged.all_give_way("b", (mine, b"mine", dot_of(writes.other, 1), b"y"))
    writes.unacknowledged.clear()
    writes.actors.number("b", 2)
    assert not writes.unacknowledged.all_give_way("b", siblings)
    writes.actors.number("a", 2)
    assert writes.unacknowledged.all_give_way("b", siblings), "of a former process"
    assert not writes.unacknowledged.all_give_way("b", (dot_of(writes.other, 1), b"y"))

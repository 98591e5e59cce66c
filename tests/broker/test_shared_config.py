"""The shared configuration: a table that always has the same content as the replicated map."""

from __future__ import annotations

from collections.abc import Iterator

from strogoff.broker.shared_config import DELETED, SharedConfig, move

from ..cluster.replicated_map.map_harness import MapHarness
from ..harness.routes import RouteMap


class Map(RouteMap):
    """A map that returns the keys with a prefix."""

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([row for row in self.values.items() if row[0].startswith(prefix)])


def test_a_local_change_is_written_to_the_map_with_its_prefix() -> None:
    metadata = Map()
    shelf = SharedConfig(metadata)
    shelf.put(b"b", b"2")
    shelf.put(b"a", b"1")
    assert metadata.writes == [(b"cb", b"2"), (b"ca", b"1")]
    assert (shelf.get(b"a"), shelf.get(b"x")) == (b"1", None)
    assert shelf.scan(b"a", b"z") == [(b"a", b"1"), (b"b", b"2")]
    assert shelf.scan(b"a", b"b") == [(b"a", b"1")]
    shelf.delete(b"b")
    shelf.delete(b"b")
    assert metadata.writes[2:] == [(b"cb", DELETED)]
    assert shelf.get(b"b") is None


def test_entries_on_disk_are_loaded_from_their_space_only() -> None:
    metadata = Map()
    metadata.values = {b"ca": b"1", b"ta": b"retained"}
    shelf = SharedConfig(metadata)
    shelf.load()
    assert shelf.scan(b"", b"\xff") == [(b"a", b"1")]


def test_a_deletion_replaces_an_earlier_value_that_it_does_not_know_of() -> None:
    """A node has set the key, and dies before all others have heard of that (H-16)."""
    world = MapHarness(2, "ABC")
    world.loop.run_for(1)
    b, c = [SharedConfig(world.nodes[name].map) for name in "BC"]
    b.put(b"k", b"first")
    world.loop.run_for(1)
    c.load()
    world.isolate("B")
    b.put(b"k", b"second")
    world.loop.run_for(1)
    c.delete(b"k")
    world.loop.run_for(1)
    world.heal()
    world.loop.run_for(10)
    for node in world.nodes.values():
        shelf = SharedConfig(node.map)
        shelf.load()
        assert shelf.get(b"k") is None and shelf.scan(b"", b"\xff") == []
        assert [each for each in node.heard if each[0] == b"ck"][-1:] != [(b"ck", b"second")]
    assert world.errors == []


def test_changes_by_other_nodes_are_reported_and_used_at_once() -> None:
    shelf = SharedConfig(Map())
    told: list[tuple[bytes, bytes | None, bytes | None]] = []
    shelf.listeners.append(lambda key, value: told.append((key, value, shelf.get(key))))
    shelf.put(b"a", b"mine")
    shelf.changed(b"ca", b"theirs")
    shelf.changed(b"ca", DELETED)
    shelf.changed(b"ca", None)
    assert told == [(b"a", b"theirs", b"theirs"), (b"a", None, None), (b"a", None, None)]


def test_a_move_takes_a_range_once_and_keeps_existing_entries() -> None:
    source, target = SharedConfig(Map()), SharedConfig(Map())
    for key in (b"a1", b"a2", b"b1"):
        source.put(key, b"source")
    target.put(b"a2", b"target")
    move(source, target, b"a", b"b")
    assert target.scan(b"", b"\xff") == [(b"a1", b"source"), (b"a2", b"target")]
    assert source.scan(b"", b"\xff") == [(b"b1", b"source")]

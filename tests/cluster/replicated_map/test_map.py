"""The interface of the replicated map."""

from __future__ import annotations

import pytest

from strogoff.cluster.replicated_map.actors import Actors
from strogoff.cluster.replicated_map.messages import (
    Ack,
    ClockReport,
    Item,
    MalformedMapMessage,
    Part,
    PartWriter,
    Writes,
    decode,
    encode,
)
from strogoff.cluster.replicated_map.version_vector import VersionVector
from tests.harness.thinning import thinned

from .map_harness import MapHarness, siblings, state


@pytest.fixture
def world() -> MapHarness:
    world = MapHarness(2, "ABC")
    world.loop.run_for(1)
    return world


def test_a_write_is_visible_everywhere_before_its_barrier(world: MapHarness) -> None:
    a, b = world.nodes["A"], world.nodes["B"]
    counter = a.map.put(b"tx", b"v")
    assert a.map.get(b"tx") == b"v"
    seen: list[bytes | None] = []
    a.map.barrier(counter, lambda well: seen.append(b.map.get(b"tx")))
    assert seen == []
    world.loop.run_for(0.2)
    assert seen == [b"v"]
    assert b.heard == [(b"tx", b"v")]
    assert a.heard == [], "own writes are no news"


def test_waiting_barriers_and_exchanges_are_counted(world: MapHarness) -> None:
    a = world.nodes["A"].map
    assert (a.open_barriers, a.exchanging) == (0, False)
    a.barrier(a.put(b"tx", b"v"), lambda well: None)
    a.exchange("B", 0, lambda well: None)
    assert (a.open_barriers, a.exchanging) == (1, True)
    world.loop.run_for(0.5)
    assert (a.open_barriers, a.exchanging) == (0, False)


def test_versions_are_equal_everywhere_and_ignore_deletions(world: MapHarness) -> None:
    a, b = world.nodes["A"].map, world.nodes["B"].map
    a.put(b"tx", b"1")
    b.put(b"tx", b"2")
    a.put(b"ty", b"3")
    a.delete(b"ty")
    world.loop.run_for(0.5)
    found = dict(a.versions())
    assert [(writer[0], counter) for writer, counter, _ in found[b"tx"]] == [("A", 1), ("B", 1)]
    assert b"ty" not in found
    assert dict(b.versions()) == found


def test_many_writes_of_a_turn_are_one_message_per_peer(world: MapHarness) -> None:
    before = world.messages
    for number in range(100):
        world.nodes["A"].map.put(b"t%d" % (number % 7), b"%d" % number)
    world.loop.settle()
    assert world.messages - before == 2
    world.loop.run_for(0.2)
    assert dict(world.nodes["C"].map.scan(b"t")) == dict(world.nodes["A"].map.scan(b"t"))


def test_a_turn_with_very_many_writes_is_sent_in_steps(world: MapHarness) -> None:
    for number in range(2500):
        world.nodes["A"].map.put(b"t%d" % number, b"v")
    done: list[bool] = []
    world.nodes["A"].map.barrier(2500, done.append)
    world.loop.run_for(0.5)
    assert done == [True]
    assert world.nodes["B"].map.statistics().keys == 2500


def test_a_turn_with_many_bytes_is_sent_in_small_messages(world: MapHarness) -> None:
    """Each has about 256 KiB, or one key; the barrier passes when all are applied."""
    a = world.nodes["A"].map
    sizes: list[int] = []
    send = a._ports.send

    def noted(peer: str, data: bytes) -> None:
        sizes.append(len(data))
        send(peer, data)

    a._ports.send = noted
    for number in range(200):
        a.put(b"t%d" % number, bytes(10_000))
    a.put(b"tlarge", bytes(1_000_000))
    a.put(b"tlast", b"v")
    seen: list[int] = []
    a.barrier(a.counter, lambda well: seen.append(world.nodes["C"].map.statistics().keys))
    world.loop.run_for(0.5)
    assert seen == [202] and len(sizes) >= 2 * 9
    assert max(sizes) < 1_300_000 and sorted(sizes)[-3] < 300_000


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (Item(b"fx", [0, 1], [b"v"]), "key b'fx' is in no namespace of half 0"),
        (Item(b"tx", [7, 1], [b"v"]), "key b'tx' has dot 1 of actor 7, with 1 actors"),
        (["tx", "junk"], "an item of 9 bytes: "),
    ],
)
def test_a_key_that_cannot_be_read_stops_no_other(world: MapHarness, broken: Item, says: str) -> None:
    """It is skipped and logged; the rest is applied, and the acknowledgement is sent."""
    b = world.nodes["B"].map
    told: list[tuple[str, str]] = []
    acked: list[Ack] = []
    b.reports.unreadable = lambda peer, text: told.append((peer, text))
    b._ports.send = lambda peer, data: acked.append(decode(data))  # type: ignore[arg-type]
    actor, base = ("A", 1), world.nodes["A"].map.counter
    covered_ranges = [(0, base, base + 2)]
    items = [broken, Item(b"tgood", [0, base + 2], [bytes(8) + b"v"])]
    parts = [Part(0, [actor], [], {}, items, covered_ranges), Part(1, [actor], [], {}, [], covered_ranges)]
    b.receive("A", encode(Writes(1, parts)))
    world.loop.run_for(0.2)
    assert b.get(b"tgood") == b"v" and b.get(b"tx") is None
    assert told == [("A", told[0][1])] and says in told[0][1]
    assert [each.counter for each in acked if isinstance(each, Ack) and each.counter > base] == [base + 2]


@pytest.mark.parametrize("space", [b"t", b"f"], ids=["on the disk", "in memory"])
def test_an_acknowledgement_does_not_overtake_earlier_writes(space: bytes) -> None:
    """H-04 (d): a reader that waited for the barrier sees the writes that A had before it acknowledged. The disk delays
    no acknowledgement of writes in memory only.
    """
    world = MapHarness(2, "AB")
    world.loop.run_for(1)
    a, b = world.nodes["A"], world.nodes["B"]
    seen: list[int] = []
    counter = b.map.put(b"fx", b"v")
    b.map.barrier(counter, lambda well: seen.append(len(list(b.map.scan(space + b"n")))))
    a_changed = a.map.on_change

    def write_much(key: bytes, value: bytes | None) -> None:
        a_changed(key, value)
        for number in range(2500):
            a.map.put(space + b"n%d" % number, b"v")

    a.map.on_change = write_much
    world.loop.run_for(0.5)
    assert seen == [2500]


def test_a_lost_acknowledgement_is_repeated_with_the_next_view(world: MapHarness) -> None:
    a, b = world.nodes["A"].map, world.nodes["B"].map
    done: list[bool] = []
    a.barrier(a.put(b"fx", b"v"), done.append)
    while b.get(b"fx") is None:
        world.loop.run_for(0.001)
    world.loop.settle()
    world.lanes["B", 1, "A"].clear()
    world.loop.run_for(20)
    assert done == []
    world.set_view(world.view)
    world.loop.run_for(1)
    assert done == [True]


def test_a_barrier_is_passed_when_the_peers_have_it_on_disk(world: MapHarness) -> None:
    """A peer killed then, which returns while the writer is away, still has the routes of the writer's sessions."""
    a, b = world.nodes["A"], world.nodes["B"]
    b.disk.stall_until = world.loop.now_s + 3
    passed: list[bool] = []
    a.map.barrier(a.map.put(b"lx", b"v"), passed.append)
    world.loop.run_for(1)
    assert (b.map.get(b"lx"), passed) == (b"v", [])
    a.map.barrier(a.map.put(b"fx", b"v"), passed.append)
    world.loop.run_for(3)
    assert passed == [True, True]
    world.restart("B", power=False)
    assert world.nodes["B"].map.get(b"lx") == b"v"


def test_writes_without_a_disk_are_not_waited_for(world: MapHarness) -> None:
    world.nodes["B"].disk.stall_until = world.loop.now_s + 3
    passed: list[bool] = []
    world.nodes["A"].map.barrier(world.nodes["A"].map.put(b"fx", b"v"), passed.append)
    world.loop.run_for(1)
    assert passed == [True]


def test_a_full_disk_of_one_node_delays_no_other(world: MapHarness) -> None:
    world.nodes["B"].disk.full = True
    passed: list[bool] = []
    world.nodes["A"].map.barrier(world.nodes["A"].map.put(b"tx", b"v"), passed.append)
    world.loop.run_for(1)
    assert passed == [True]


def test_an_exchange_is_complete_when_this_node_has_it_on_disk(world: MapHarness) -> None:
    """A node after an exchange counts as one that knows all promises, also after a restart."""
    world.isolate("C")
    world.loop.run_for(1)
    world.nodes["A"].map.put(b"tx", b"v")
    world.loop.run_for(1)
    world.nodes["C"].disk.stall_until = world.loop.now_s + 3
    ended: list[bool] = []
    world.heal()
    world.loop.run_for(0.1)
    world.nodes["C"].map.exchange("A", 0, ended.append)
    world.loop.run_for(2)
    assert (world.nodes["C"].map.get(b"tx"), ended) == (b"v", [])
    world.loop.run_for(2)
    assert ended == [True]


def test_concurrent_values_stay_until_the_next_write(world: MapHarness) -> None:
    a, b = world.nodes["A"].map, world.nodes["B"].map
    a.put(b"tx", b"a")
    b.put(b"tx", b"b")
    world.loop.run_for(0.5)
    winner = a.get(b"tx")
    assert winner in (b"a", b"b")
    assert b.get(b"tx") == world.nodes["C"].map.get(b"tx") == winner
    world.nodes["C"].map.put(b"tx", b"c")
    world.loop.run_for(0.5)
    assert [node.map.get(b"tx") for node in world.nodes.values()] == [b"c"] * 3


@pytest.mark.parametrize("seed", thinned(range(200), 20))
def test_who_deletes_learns_of_a_concurrent_value_before_the_barrier(seed: int) -> None:
    """A dies at any moment; B has heard of the value before or after it hears of the deletion (H-16)."""
    world = MapHarness(seed, "ABC")
    world.loop.run_for(1)
    world.put("A", b"tx", b"value")
    deleted = world.put("C", b"tx", None)
    world.barrier("C", deleted)
    world.loop.run_for(world.rng.uniform(0, 0.03))
    world.nodes["A"].alive = False
    world.loop.run_for(0.1)  # the view without A comes later
    world.isolate("A")
    b, c = world.nodes["B"].map, world.nodes["C"].map
    while c.open_barriers:
        world.loop.run_for(0.001)
    if c.lost(b"tx", deleted):
        world.barrier("C", world.put("C", b"tx", None))
        world.loop.run_for(10)
    assert [b.get(b"tx"), c.get(b"tx")] == [None, None]
    assert world.errors == []


def test_a_deletion_is_lost_while_its_tombstone_is_beside_a_value(world: MapHarness) -> None:
    a, c = world.nodes["A"].map, world.nodes["C"].map
    a.put(b"tx", b"value")
    deleted = c.delete(b"tx")
    assert not c.lost(b"tx", deleted)
    world.loop.run_for(0.2)
    assert c.lost(b"tx", deleted)
    assert not c.lost(b"tx", deleted + 1), "no such deletion"
    c.delete(b"tx")
    assert not c.lost(b"tx", deleted)


def test_put_beats_a_concurrent_delete(world: MapHarness) -> None:
    a, b = world.nodes["A"].map, world.nodes["B"].map
    a.put(b"tx", b"old")
    world.loop.run_for(0.5)
    a.delete(b"tx")
    b.put(b"tx", b"new")
    world.loop.run_for(0.5)
    assert [node.map.get(b"tx") for node in world.nodes.values()] == [b"new"] * 3


def test_a_restart_keeps_the_durable_half_and_fetches_the_other_half(world: MapHarness) -> None:
    world.put("A", b"tx", b"v")
    world.put("B", b"fBx", b"r")
    world.loop.run_for(1)
    world.restart("A", power=False)
    node = world.nodes["A"]
    assert node.map.get(b"tx") == b"v"
    assert node.map.get(b"fBx") is None
    world.loop.run_for(2)
    assert node.map.get(b"fBx") == b"1:r"


def test_a_lost_message_is_not_acknowledged_and_is_requested(world: MapHarness) -> None:
    counter = world.put("A", b"tx", b"v")
    world.loop.settle()
    world.lanes["A", 1, "B"].clear()
    done: list[bool] = []
    world.nodes["A"].map.barrier(counter, done.append)
    world.loop.run_for(0.1)
    assert done == []
    world.put("A", b"ty", b"v")
    world.loop.run_for(1)
    assert done == [True]
    assert world.nodes["B"].map.get(b"tx") == b"v"


@pytest.mark.parametrize("written_again", [False, True])
def test_the_replaced_values_of_a_key_are_passed_on(written_again: bool, world: MapHarness) -> None:
    """C has A's value and not B's, which it replaced; B gets it from C and drops its own, as all others did."""
    a, b, c = world.nodes.values()
    for writer, misses in ((b, c), (a, b)):
        world.put(writer.name, b"tx", writer.name.encode())
        world.loop.settle()
        world.lanes[writer.name, 1, misses.name].clear()
        world.loop.run_for(0.03)
    assert len(siblings(c.map, b"tx")) == 1
    if written_again:
        world.put("C", b"tx", b"C")
    else:
        b.map.exchange("C", 0, lambda well: None)
    world.loop.run_for(0.1)
    assert siblings(b.map, b"tx") == siblings(c.map, b"tx")
    world.loop.run_for(30)
    assert state(a.map) == state(b.map) == state(c.map)
    assert b.map.get(b"tx") == (b"C" if written_again else b"A")


def test_cancel(world: MapHarness) -> None:
    done: list[bool] = []
    map_ = world.nodes["A"].map
    handle = map_.barrier(map_.put(b"tx", b"v"), done.append)
    assert map_.cancel(handle)
    world.loop.run_for(1)
    assert done == []


def test_malformed_is_one_error_and_changes_nothing(world: MapHarness) -> None:
    map_ = world.nodes["A"].map
    actors = Actors()
    ours = VersionVector(actors)
    ours.add(actors.number("A", 1), 0, 99)
    for message, says in (
        (encode(ClockReport(1, [PartWriter(0, ours).part])), "write 99 of this node"),
        (encode(Writes(0, [])), "boot 0"),
        (b"nonsense", "metadata message of 8 bytes"),
    ):
        with pytest.raises(MalformedMapMessage, match=says):
            map_.receive("B", message)
    assert map_.statistics().keys == 0


def test_messages_of_an_earlier_boot_are_ignored(world: MapHarness) -> None:
    map_ = world.nodes["A"].map
    map_.receive("B", encode(ClockReport(2, [PartWriter(0, VersionVector(Actors())).part])))
    map_.receive("B", encode(Writes(1, [Part(0, [("B", 1)], [[0, 1]], {}, [Item(b"tx", [0, 1], [b"12345678v"])])])))
    assert map_.get(b"tx") is None


def test_statistics(world: MapHarness) -> None:
    map_ = world.nodes["A"].map
    map_.put(b"tx", b"v")
    map_.delete(b"ty")
    figures = map_.statistics()
    assert (figures.keys, figures.tombstones, figures.log) == (1, 1, 2)
    assert figures.bytes == len(b"tx") + 8 + len(b"v") + len(b"ty")


def test_a_map_that_is_not_settled_names_no_context(world: MapHarness) -> None:
    """It has a value of C that has seen more than B has."""
    told: list[tuple[int | None, bool]] = []
    map_ = world.nodes["B"].map
    map_.reports.compared = lambda peer, exchange, behind, context, digest: told.append((behind, bool(context)))
    ahead = VersionVector(map_._actors)
    ahead.add(map_._actors.number("C", 1), 0, 99)
    map_._halves[0].key_contexts.note([b"tx"], ahead)
    map_.exchange("A", 0, lambda well: None)
    world.loop.run_for(0.5)
    assert told == [(0, False)]
    map_._halves[0].clock.join(ahead)
    map_.exchange("A", 0, lambda well: None)
    world.loop.run_for(0.5)
    assert told[1:] == [(0, True)]

"""Exchanges between two nodes: messages, requests for a later view, retries, and the end of an exchange."""

from __future__ import annotations

from strogoff.cluster.replicated_map.actors import Actors
from strogoff.cluster.replicated_map.anti_entropy import GIVE_UP_MS, RETRY_MS, AntiEntropy
from strogoff.cluster.replicated_map.messages import Batch, Message, SyncRequest, clock_of, decode
from strogoff.cluster.replicated_map.replica import Replica
from strogoff.cluster.replicated_map.version_vector import VersionVector

from .map_harness import MapHarness


def quiet(names: str = "AB") -> MapHarness:
    world = MapHarness(1, names)
    world.loop.run_for(1)
    return world


def test_equal_maps_cost_three_messages_and_no_key() -> None:
    world = quiet()
    for number in range(300):
        world.put("A", b"t%d" % number, b"v")
    world.loop.run_for(1)
    done: list[bool] = []
    world.nodes["B"].map.exchange("A", 0, done.append)
    world.loop.run_for(0.5)
    figures = world.nodes["B"].map.statistics()
    assert done == [True]
    assert (figures.exchange_messages, figures.exchange_keys) == (3, 0) or figures.exchange_messages == 2


def test_both_ways_in_batches() -> None:
    world = quiet()
    world.isolate("B")
    world.loop.run_for(0.2)
    for number in range(450):
        world.put("A", b"ta%d" % number, b"v")
        world.put("B", b"tb%d" % number, b"v")
    world.heal()
    world.loop.run_for(5)
    for node in world.nodes.values():
        assert node.map.statistics().keys == 900


def test_a_request_for_a_later_view_waits() -> None:
    world = quiet()
    done: list[bool] = []
    world.nodes["A"].map.exchange("B", 2, done.append)
    world.loop.run_for(0.5)
    assert done == []
    world.nodes["B"].view = 2
    world.nodes["B"].map.flush()
    world.loop.run_for(0.5)
    assert done == [True]


def test_an_answer_to_an_earlier_process_is_ignored() -> None:
    """H-04: B has applied the view of the earlier process, and does not know yet the view that the
    present one enters.
    """
    actors = Actors()
    halves = Replica(actors, lambda *change: None), Replica(actors, lambda *change: None)
    sent: list[Message] = []
    done: list[bool] = []
    for boot in (1, 2):
        exchanges = AntiEntropy(
            boot, halves, lambda peer, message: sent.append(message), lambda *parts: None, lambda: 1, lambda: 0.0
        )
        exchanges.ask("B", boot + 1, done.append)
    clocks = exchanges.clocks()
    for ask in sent[:]:
        assert isinstance(ask, SyncRequest) and done == []
        answer = Batch(1, ask.exchange, 1, True, True, clocks)
        exchanges.batch("B", answer, (clock_of(clocks[0], actors), clock_of(clocks[1], actors)))
    assert done == [True]


def test_a_request_is_repeated_until_it_gives_up() -> None:
    world = quiet()
    done: list[bool] = []
    asked: list[int] = []
    world.nodes["B"].alive = False
    map_ = world.nodes["A"].map
    send = map_._ports.send

    def sends(peer: str, data: bytes) -> None:
        message = decode(data)
        if isinstance(message, SyncRequest):
            asked.append(message.exchange)
        send(peer, data)

    map_._ports.send = sends
    map_.exchange("B", 0, done.append)
    world.loop.run_for((GIVE_UP_MS + 2 * RETRY_MS) / 1000)
    assert done == [False]
    assert len(asked) >= GIVE_UP_MS / RETRY_MS / 2


def test_the_peer_leaves_the_view() -> None:
    world = quiet("ABC")
    done: list[str] = []
    world.nodes["B"].alive = False
    map_ = world.nodes["A"].map
    map_.exchange("B", 0, lambda well: done.append(f"B {well}"))
    map_.exchange("C", 0, lambda well: done.append(f"C {well}"))
    world.loop.run_for(0.3)
    assert done == [], "one at a time"
    map_.set_peers([world.nodes["C"].incarnation])
    world.loop.run_for(0.5)
    assert done == ["B False", "C True"]
    assert map_._anti_entropy.pending() == []


def test_a_joining_node_does_not_get_the_map_from_every_peer() -> None:
    world = quiet("ABC")
    world.cut.add("C")
    for number in range(300):
        world.put("A", b"t%d" % number, b"v")
    world.loop.run_for(0.5)
    for waiting in world.lanes.values():
        waiting.clear()
    world.cut.clear()
    entered: list[bool] = []
    asked: list[bool] = []
    later = world.nodes["A"].view + 1
    world.nodes["C"].map.exchange("A", later, entered.append)
    world.nodes["B"].map.exchange("C", 0, asked.append)
    world.loop.run_for(0.3)
    assert (entered, asked) == ([], [True])
    assert world.nodes["C"].map.statistics().keys == 0
    world.nodes["A"].view = later
    world.nodes["A"].map.flush()
    world.loop.run_for(1)
    assert entered == [True]
    assert world.nodes["C"].map.statistics().keys == 300


def test_a_node_counts_the_writes_that_it_lacks_after_an_answer() -> None:
    """Nothing of the answer was applied here."""
    actors = Actors()
    halves = Replica(actors, lambda *change: None), Replica(actors, lambda *change: None)
    sent: list[Message] = []
    told: list[tuple[str, int, int | None]] = []
    exchanges = AntiEntropy(
        1, halves, lambda peer, message: sent.append(message), lambda *parts: None, lambda: 1, lambda: 0.0
    )
    exchanges.on_compared = lambda *what: told.append(what)
    exchanges.ask("B", 0, lambda well: None)
    (ask,) = sent
    assert isinstance(ask, SyncRequest) and told == []
    theirs = VersionVector(actors), VersionVector(actors)
    theirs[0].add(actors.number("B", 1), 0, 3)
    theirs[1].add(actors.number("B", 1), 1, 2)
    exchanges.batch("B", Batch(1, ask.exchange, 1, True, True, exchanges.clocks()), theirs)
    assert told == [("B", ask.exchange, 4)]


def test_what_was_asked_for_counts_also_from_a_process_that_is_not_in_the_view_yet() -> None:
    """Else the exchange would end well, and this node would lack what the peer had."""
    world = quiet()
    a, b = world.nodes["A"], world.nodes["B"]
    world.cut.add("A")
    world.put("B", b"tx", b"v")
    world.loop.run_for(0.1)
    for waiting in world.lanes.values():
        waiting.clear()
    world.cut.clear()
    a.map.set_peers([])
    done: list[bool] = []
    a.map.exchange("B", 0, done.append)
    world.loop.run_for(0.5)
    assert (a.map.get(b"tx"), done) == (b"v", [True])
    assert b.map.statistics().keys == 1


def test_both_sides_of_an_exchange_tell_what_they_have() -> None:
    world = quiet()
    world.put("A", b"tx", b"v")
    world.loop.run_for(20)
    assert world.pairs > 3 and world.errors == []
    assert {asker for asker, _ in world.compared} == {"A", "B"}

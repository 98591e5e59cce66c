"""What a node that was cut off never acknowledged comes to nobody before it has given way (H-16)."""

from __future__ import annotations

import pytest

from tests.harness.thinning import thinned

from .map_harness import MapHarness, Node

FIRST = b"first"
TRIPLE = ("A", "B", "C")


def cut_off(seed: int, writes: int = 0) -> MapHarness:
    """A writes two keys while it is cut off. B deletes one of them, `tx`, and writes others."""
    world = MapHarness(seed, "ABC")
    world.loop.run_for(1)
    world.cut.add("A")
    world.put("A", b"tx", FIRST)
    world.put("A", b"ty", b"nobody else writes this")
    world.loop.run_for(world.rng.uniform(0, 8))
    lose_lease(world.nodes["A"])
    world.set_view(("B", "C"))
    world.loop.run_for(0.1)
    world.put("B", b"tx", None)
    for number in range(writes):
        world.put("B", b"t%d" % number, b"v")
    world.loop.run_for(1)
    return world


def lose_lease(node: Node) -> None:
    node.map.leased(False)
    node.map.let_give_way(lambda peer: True)


def told(world: MapHarness) -> list[str]:
    """The nodes that had what A wrote without an acknowledgement."""
    return [node.name for node in world.nodes.values() if (b"tx", FIRST) in node.heard]


def ask(world: MapHarness, asker: str, asked: str) -> None:
    """Let one node ask another one now, and wait until it has an answer."""
    done: list[bool] = []
    world.nodes[asker].map.exchange(asked, 0, done.append)
    world.loop.run_for(0.5)
    assert done == [True]


def test_a_node_out_of_the_view_gives_nothing_and_learns() -> None:
    world = cut_off(0, writes=3)
    world.cut.clear()
    world.deliver_all()
    world.loop.run_for(0.1)
    assert told(world) == [], "by its stream"
    ask(world, "A", "B")
    assert told(world) == [], "by the exchange that it asked for"
    assert world.nodes["A"].map.statistics().keys == 5


def test_a_node_that_enters_gives_nothing_to_who_asks_before_it_has_given_way() -> None:
    world = cut_off(0, writes=3)
    for waiting in world.lanes.values():
        waiting.clear()
    world.cut.clear()
    b = world.nodes["B"]
    b.map.set_peers([world.nodes[name].incarnation for name in "AC"])
    ask(world, "B", "A")
    assert told(world) == []


def test_what_an_exchange_sends_uncalled_for_counts_only_from_nodes_in_the_view() -> None:
    """A was about to send it when it was cut off, or it does not know yet that B serves."""
    world = cut_off(0)
    a, b = world.nodes["A"], world.nodes["B"]
    a.map.let_give_way(lambda peer: False)
    for waiting in world.lanes.values():
        waiting.clear()
    world.cut.clear()
    ask(world, "A", "B")
    assert told(world) == []
    b.map.set_peers([world.nodes[name].incarnation for name in "AC"])
    ask(world, "A", "B")
    assert told(world) == ["B"]


@pytest.mark.parametrize("former_boot", [False, True])
def test_who_deleted_is_not_told_of_what_gives_way(former_boot: bool) -> None:
    """The deletion comes in an exchange, and A would confirm it."""
    world = cut_off(0)
    if former_boot:
        world.restart("A", power=False)
        lose_lease(world.nodes["A"])
    for waiting in world.lanes.values():
        waiting.clear()
    world.cut.clear()
    world.nodes["B"].map.set_peers([world.nodes[name].incarnation for name in "AC"])
    world.nodes["A"].map.set_peers([world.nodes[name].incarnation for name in "BC"])
    ask(world, "A", "B")
    assert told(world) == []


def test_writes_of_a_node_that_enters_are_fetched_at_once_by_who_applies_the_view_late() -> None:
    """None of the two serves, so neither has to make an exchange with the other one."""
    world = MapHarness(3, "ABC")
    world.loop.run_for(1)
    a, b = world.nodes["A"], world.nodes["B"]
    b.map.set_peers([world.nodes["C"].incarnation])
    done: list[bool] = []
    a.map.barrier(world.put("A", b"tx", b"v"), done.append)
    world.loop.run_for(0.1)
    assert (b.map.get(b"tx"), done) == (None, [])
    b.map.set_peers([world.nodes[name].incarnation for name in "AC"])
    world.loop.run_for(0.2)
    assert (b.map.get(b"tx"), done) == (b"v", [True])


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("seed", thinned(range(40), 20))
def test_nobody_gets_what_gives_way(seed: int, restart: bool) -> None:
    world = cut_off(seed, [0, 1000][seed % 2])
    if restart:
        world.restart("A", power=False)
        lose_lease(world.nodes["A"])
    world.cut.clear()
    world.deliver_all()
    world.loop.run_for(world.rng.uniform(0.1, 8))  # a view needs the streams, so what waits in them comes before it
    world.set_view(TRIPLE)
    world.loop.run_for(20)
    assert told(world) == []
    assert [node.map.get(b"tx") for node in world.nodes.values()] == [None] * 3
    assert [sum(1 for _ in node.map.scan(b"t")) for node in world.nodes.values()] == [1 + 1000 * (seed % 2)] * 3
    assert world.errors == []

"""Planted cases of replicated maps that differ: A22."""

from __future__ import annotations

from ..findings import Subject
from .catalogue import Catalogue
from .scene import Actor, Node
from .stage import Stage

CASES = Catalogue()
MINUTE_MS = 61_000
"""Longer than a node may take to compare its map after a heal, in ms."""
SAME = ("c1", "d1")
"""A context and a digest."""


def _compare(
    stage: Stage,
    nodes: tuple[Node, Node],
    number: int,
    left: tuple[str, str] = SAME,
    right: tuple[str, str] = SAME,
    behind: int = 0,
) -> None:
    """Two nodes compare their maps. The first asks; it has `left` then, and lacks `behind` writes."""
    asker, asked = nodes
    said = {"context": right[0], "digest": right[1]}
    stage.say(asked, "map.sync", source=asker.name, exchange=number, **said)
    said = {"context": left[0], "digest": left[1]}
    stage.say(asker, "map.sync", target=asked.name, exchange=number, behind=behind, **said)


def _nodes(stage: Stage) -> tuple[Node, Node]:
    """Returns two nodes that see each other, and have compared their maps."""
    nodes = stage.node(), stage.node()
    for one, other in (nodes, nodes[::-1]):
        stage.say(one, "mem.up", target=other.name, view=1)
    _compare(stage, nodes, 1)
    return nodes


def _heal(stage: Stage, node: Node, other: Node) -> int:
    """A short incident of a node. Returns the stamp of its heal."""
    split = {"nodes": [other.name], "incident": 1, "state": "majority", "window_ms": 20}
    stage.say(node, "split.detect", **split)
    stage.expect("A20", "majority", Subject(node.name, detail="incident 1"), "metric")
    return int(stage.say(node, "split.heal", **split)["hlc"])


@CASES.anomaly
def maps_differ(stage: Stage) -> Actor:
    """A22: two nodes have seen the same writes, and have other values."""
    one, other = _nodes(stage)
    yield 5000
    _compare(stage, (one, other), 2, right=("c1", "d2"))
    stage.expect("A22", "different", Subject(one.name, detail="comparison 2"))


@CASES.anomaly
def map_is_behind(stage: Stage) -> Actor:
    """A22: a node lacks three writes of another one, after it has got all."""
    one, other = _nodes(stage)
    yield 5000
    _compare(stage, (one, other), 2, left=("c0", "d0"), behind=3)
    stage.expect("A22", "behind", Subject(one.name, detail="comparison 2"))


@CASES.anomaly
def maps_are_not_compared(stage: Stage) -> Actor:
    """A22: for a minute after a heal a node completes no comparison, and then one."""
    one, other = _nodes(stage)
    yield 100
    healed = _heal(stage, one, other)
    stage.expect("A22", "no-round", Subject(one.name, detail=f"healed {healed}"), "error")
    yield MINUTE_MS
    _compare(stage, (one, other), 2)


@CASES.anomaly
def maps_are_never_compared_again(stage: Stage) -> Actor:
    """A22: after a heal a node completes no comparison any more."""
    one, other = _nodes(stage)
    yield 100
    healed = _heal(stage, one, other)
    stage.expect("A22", "no-round", Subject(one.name, detail=f"healed {healed}"), "error")
    yield MINUTE_MS


@CASES.near_miss
def maps_are_written_meanwhile(stage: Stage) -> Actor:
    """The node that asks has seen a write that the other one has not seen: then their values differ."""
    one, other = _nodes(stage)
    yield 5000
    _compare(stage, (one, other), 2, left=("c2", "d2"))
    _compare(stage, (one, other), 3, left=("c2", "d2"), right=("c2", "d2"))


@CASES.near_miss
def maps_with_values_beyond_what_was_seen(stage: Stage) -> Actor:
    """Both nodes have a value before all that it replaces: they name no context."""
    one, other = _nodes(stage)
    yield 5000
    _compare(stage, (one, other), 2, left=("", "d2"), right=("", "d3"))


@CASES.near_miss
def comparison_without_an_answer(stage: Stage) -> Actor:
    """A request is repeated with another number, and the values change between the two."""
    one, other = _nodes(stage)
    yield 5000
    stage.say(other, "map.sync", source=one.name, exchange=2, context="c1", digest="d1")
    yield 5000
    _compare(stage, (one, other), 3, left=("c1", "d3"), right=("c1", "d3"))


@CASES.near_miss
def maps_are_compared_in_time(stage: Stage) -> Actor:
    """The first comparison is half a minute after the heal."""
    one, other = _nodes(stage)
    yield 100
    _heal(stage, one, other)
    yield MINUTE_MS // 2
    _compare(stage, (one, other), 2)
    yield MINUTE_MS


@CASES.near_miss
def alone_after_the_heal(stage: Stage) -> Actor:
    """The other node leaves the view after the heal, and is back a minute later."""
    one, other = _nodes(stage)
    yield 100
    _heal(stage, one, other)
    yield 100
    stage.say(one, "mem.down", target=other.name, view=2)
    yield MINUTE_MS
    stage.say(one, "mem.up", target=other.name, view=3)
    _compare(stage, (one, other), 2)

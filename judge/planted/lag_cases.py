"""Planted cases of subscriptions that other nodes learn of: A17."""

from __future__ import annotations

from ..findings import Subject
from .catalogue import Catalogue
from .clients import Client
from .scene import Actor, Node
from .stage import Stage

CASES = Catalogue()
SLOW_MS = 2_000
"""How long another node takes here to learn of a subscription, in ms."""


def _cluster(stage: Stage) -> tuple[Client, Node]:
    """Returns a client, and another node that its node sees and that has a lease."""
    rx, other = stage.client(stage.node()), stage.node()
    stage.say(rx.node, "mem.up", target=other.name, view=1)
    stage.say(other, "lease.get", view=1)
    return rx, other


def _subscribe(stage: Stage, rx: Client, write: int) -> None:
    stage.of_session(rx, "sub.add", filter=stage.topic, qos=1, write=write)


def _learn(stage: Stage, rx: Client, other: Node, write: int) -> None:
    stage.say(other, "map.learn", source=rx.node.name, source_boot=rx.node.boot, write=write)


def _answer(stage: Stage, rx: Client, write: int, right: str = "lease") -> None:
    of = {"client": rx.name, "filters": [stage.topic], "codes": ["1"], "conn": rx.conn}
    stage.say(rx.node, "sub.ack", **of, right=right, write=write)


def _numbers(stage: Stage, rx: Client) -> None:
    for kind in ("p50", "p99", "max"):
        stage.expect("A17", kind, Subject(rx.node.name, detail=f"boot {rx.node.boot}"), "metric")


@CASES.anomaly
def subscription_is_slow(stage: Stage) -> Actor:
    """A17: another node needs 2 s for the first of two subscriptions, and SUBACK waits for it."""
    rx, other = _cluster(stage)
    for write in (5, 6):
        _subscribe(stage, rx, write)
        yield SLOW_MS
        _learn(stage, rx, other, write)
        _answer(stage, rx, write)
    _numbers(stage, rx)


@CASES.near_miss
def learned_without_a_row(stage: Stage) -> Actor:
    """The other node writes no rows of level `message` until its level is raised, and then one for all before."""
    rx, other = _cluster(stage)
    stage.say(other, "node.join", level="session")
    _subscribe(stage, rx, 5)
    _answer(stage, rx, 5)
    yield SLOW_MS
    stage.say(other, "config.change", key="eventlog.level", old="session", new="message")
    _learn(stage, rx, other, 6)


@CASES.anomaly
def subscription_is_late(stage: Stage) -> Actor:
    """A17: SUBACK leaves 2 s before another node knows of the subscription; it knows of the one before."""
    rx, other = _cluster(stage)
    _subscribe(stage, rx, 7)
    _learn(stage, rx, other, 6)
    _answer(stage, rx, 7)
    yield SLOW_MS
    _learn(stage, rx, other, 8)
    _numbers(stage, rx)
    detail = f"boot {rx.node.boot}, {other.name}"
    stage.expect("A17", "late", Subject(rx.node.name, detail=detail), "error")


@CASES.near_miss
def subscription_without_an_absent_node(stage: Stage) -> Actor:
    """SUBACK does not wait for a node that is out of the view, and learns of the subscription when it is back."""
    rx, other = _cluster(stage)
    stage.say(rx.node, "mem.down", target=other.name, view=2)
    _subscribe(stage, rx, 3)
    _answer(stage, rx, 3)
    yield SLOW_MS
    stage.say(rx.node, "mem.up", target=other.name, view=3)
    _learn(stage, rx, other, 3)


@CASES.near_miss
def subscription_while_a_node_comes_back(stage: Stage) -> Actor:
    """The other node is in the view again. It has no lease before it has learned what it had missed."""
    rx, other = _cluster(stage)
    _learn(stage, rx, other, 2)
    yield from stage.kill(other)
    _subscribe(stage, rx, 3)
    _answer(stage, rx, 3)
    yield SLOW_MS
    _learn(stage, rx, other, 3)
    stage.say(other, "lease.get", view=1)
    _numbers(stage, rx)


@CASES.near_miss
def subscription_by_policy(stage: Stage) -> Actor:
    """The policy lets SUBACK leave without the other nodes."""
    rx, other = _cluster(stage)
    _subscribe(stage, rx, 3)
    _answer(stage, rx, 3, right="policy")
    yield SLOW_MS
    _learn(stage, rx, other, 3)
    _numbers(stage, rx)


@CASES.near_miss
def subscription_of_another_boot(stage: Stage) -> Actor:
    """The numbers of writes begin again with each start of the node."""
    rx, other = _cluster(stage)
    _learn(stage, rx, other, 9)
    yield from stage.kill(rx.node)
    stage.say(rx.node, "mem.up", target=other.name, view=3)
    stage.connect(rx, present=True)
    _subscribe(stage, rx, 2)
    yield 5
    _learn(stage, rx, other, 2)
    _answer(stage, rx, 2)
    _numbers(stage, rx)

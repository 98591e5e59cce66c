"""Planted cases of messages from before a fault that come long after it: A7."""

from __future__ import annotations

from ..findings import Subject
from ..rows import MessageId
from .catalogue import Catalogue
from .clients import Client
from .scene import Actor
from .stage import Stage

CASES = Catalogue()
LONG_MS = 11_000
"""Longer than a message from before a fault may take, in ms."""


def _pair(stage: Stage, filter: str = "") -> tuple[Client, Client]:
    """Returns a publisher and a subscriber to several topics, at two nodes."""
    tx, rx = stage.client(stage.node(), "tx", 0), stage.client(stage.node())
    stage.subscribe(rx, filter or f"{stage.topic}/#")
    return tx, rx


def _accept(stage: Stage, tx: Client, name: str) -> tuple[MessageId, str]:
    topic = f"{stage.topic}/{name}"
    mid = stage.accept(tx, topic)
    stage.route(mid, tx.node)
    return mid, topic


def _arrive(stage: Stage, tx: Client, rx: Client, mid: MessageId, topic: str) -> None:
    """The message goes to the other node, is acknowledged, and is sent."""
    stage.forward(mid, tx.node, rx.node)
    stage.route(mid, rx.node, rx)
    stage.enqueue(mid, rx, topic)
    stage.forwarded(mid, tx.node, rx.node)
    stage.ack(mid, tx)
    stage.got(mid, rx, stage.send(mid, rx))


def _incident(stage: Stage, tx: Client, rx: Client) -> Actor:
    """The publisher's node does not see the other one for a while."""
    split = {"nodes": [rx.node.name], "incident": 1, "state": "majority", "window_ms": 20}
    stage.say(tx.node, "split.detect", **split)
    yield 500
    stage.say(tx.node, "split.heal", **split)
    stage.expect("A20", "majority", Subject(tx.node.name, detail="incident 1"), "metric")


def _around(stage: Stage, wait_ms: int, filter: str = "", newer_before: bool = False) -> Actor:
    """A message is accepted before an incident, and another one after it, which comes first."""
    tx, rx = _pair(stage, filter)
    first = _accept(stage, tx, "a")
    second = _accept(stage, tx, "b") if newer_before else None
    yield from _incident(stage, tx, rx)
    yield 100
    _arrive(stage, tx, rx, *(second or _accept(stage, tx, "b")))
    yield wait_ms
    _arrive(stage, tx, rx, *first)
    if wait_ms >= LONG_MS and not filter and not newer_before:
        stage.expect_of("A7", "stranded", rx, first[0], "error")


@CASES.anomaly
def stranded(stage: Stage) -> Actor:
    """A7: a message from before an incident comes 11 s after the heal, behind one from after it."""
    yield from _around(stage, LONG_MS)


@CASES.anomaly
def stranded_at_a_node_that_was_away(stage: Stage) -> Actor:
    """A7: the node of the session was killed; a message from before comes 11 s after its start, behind a newer one."""
    tx, rx = _pair(stage)
    first = _accept(stage, tx, "a")
    yield from stage.kill(rx.node)
    stage.connect(rx, present=True)
    stage.of_session(rx, "q.depth", count=0)
    _arrive(stage, tx, rx, *_accept(stage, tx, "b"))
    yield LONG_MS
    _arrive(stage, tx, rx, *first)
    stage.expect_of("A7", "stranded", rx, first[0], "error")


@CASES.near_miss
def late_behind_a_newer_one(stage: Stage) -> Actor:
    """The same within 5 s after the heal: other nodes are still catching up."""
    yield from _around(stage, 5_000)


@CASES.near_miss
def both_from_before_the_fault(stage: Stage) -> Actor:
    """Both messages are from before the incident: no order is promised across topics."""
    yield from _around(stage, LONG_MS, newer_before=True)


@CASES.near_miss
def late_for_a_group(stage: Stage) -> Actor:
    """A shared subscription has no order."""
    yield from _around(stage, LONG_MS, filter=f"$share/g/{stage.topic}/#")


@CASES.near_miss
def late_without_a_fault(stage: Stage) -> Actor:
    """A message comes late and behind a newer one, and no node was away."""
    tx, rx = _pair(stage)
    first = _accept(stage, tx, "a")
    yield 500
    _arrive(stage, tx, rx, *_accept(stage, tx, "b"))
    yield LONG_MS
    _arrive(stage, tx, rx, *first)


@CASES.near_miss
def late_after_a_second_fault(stage: Stage) -> Actor:
    """Another incident heals just before the message comes."""
    tx, rx = _pair(stage)
    first = _accept(stage, tx, "a")
    yield from _incident(stage, tx, rx)
    yield 100
    _arrive(stage, tx, rx, *_accept(stage, tx, "b"))
    yield LONG_MS
    split = {"nodes": [rx.node.name], "incident": 2, "state": "majority", "window_ms": 20}
    stage.say(tx.node, "split.detect", **split)
    yield 500
    stage.say(tx.node, "split.heal", **split)
    stage.expect("A20", "majority", Subject(tx.node.name, detail="incident 2"), "metric")
    yield 100
    _arrive(stage, tx, rx, *first)

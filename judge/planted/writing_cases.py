"""Planted cases of logs that do not have all messages: filters, sampling, levels. A0, A1, A15."""

from __future__ import annotations

from typing import Any

from ...cluster.identity import following
from ..findings import Subject
from ..rows import MessageId
from .catalogue import Catalogue
from .clients import Client
from .scene import Actor, Node
from .stage import Stage

CASES = Catalogue()
LEVEL = "eventlog.level"


def _change_start(stage: Stage, **fields: Any) -> None:
    """The node that has just started says something else about its start."""
    stage.scene.written[-1] = {**stage.scene.written[-1], **fields}


def _left_out(node: Node) -> MessageId:
    """Returns the id of a message that the node accepts, and leaves out."""
    node.mids = following(node.mids, False)
    return node.name, node.boot, node.mids


def _count(stage: Stage, node: Node, count: int) -> None:
    stage.say(node, "node.stats", connects=2, publishes=9, deliveries=9, drops={"queue_full": 1}, left_out=count)
    stage.expect("A0", "left-out", Subject(node.name, detail=f"boot {node.boot}"), "metric")


def _silent_pair(stage: Stage) -> tuple[Client, Client]:
    """Returns a publisher and a subscriber at two nodes; the subscriber's writes no rows of messages."""
    tx = stage.client(stage.node(), "tx", 0)
    node = stage.node()
    _change_start(stage, level="session")
    rx = stage.client(node)
    stage.subscribe(rx, stage.topic)
    return tx, rx


@CASES.anomaly
def another_key(stage: Stage) -> Actor:
    """A0: a node replaces names with a key of its own."""
    node = stage.node()
    _change_start(stage, settings=["queue_replicas=2", f"eventlog.redact={stage.name}"])
    stage.expect("A0", "keys", Subject(node.name, detail=f"boot {node.boot}, names"))
    yield 0


@CASES.anomaly
def another_key_at_a_join(stage: Stage) -> Actor:
    """A0: a node with a key of its own joins the cluster. It has started in a run of its own."""
    node = stage.node()
    stage.scene.written.pop()
    stage.say(node, "node.join", old="own", level="message", settings=[f"eventlog.redact={stage.name}"])
    stage.expect("A0", "keys", Subject(node.name, detail=f"boot {node.boot}, names"))
    yield 0


@CASES.near_miss
def names_are_not_replaced(stage: Stage) -> Actor:
    """Nodes of this version say so. Those of earlier versions say nothing."""
    stage.node()
    _change_start(stage, settings=["queue_replicas=2", "eventlog.redact=off"])
    yield 0


@CASES.near_miss
def sampling(stage: Stage) -> Actor:
    """The writer does not keep up, so a node leaves out messages. One was dropped, and only that has a row."""
    tx, rx = stage.pair()
    stage.say(tx.node, "log.sample", state="begin")
    mid = _left_out(tx.node)
    stage.of_session(rx, "q.drop", topic=stage.topic, reason="queue_full", mid=mid, qos=1)
    yield 20
    stage.delivered(tx, rx)
    stage.say(tx.node, "log.sample", state="end", count=3)
    _count(stage, tx.node, 3)


@CASES.anomaly
def lost_while_sampling(stage: Stage) -> Actor:
    """A1: the log has the message, while the node leaves out others."""
    tx, rx = stage.pair()
    stage.say(tx.node, "log.sample", state="begin")
    _left_out(tx.node)
    mid = stage.accept(tx, stage.topic)
    stage.route(mid, tx.node, rx)
    stage.ack(mid, tx)
    stage.expect_of("A1", "queue", rx, mid)
    stage.say(tx.node, "log.sample", state="end", count=1)
    yield 0


@CASES.near_miss
def rows_of_an_earlier_version(stage: Stage) -> Actor:
    """A node of an earlier version writes rows about a message that its origin has left out."""
    tx, rx = stage.far_pair()
    mid = _left_out(tx.node)
    stage.say(rx.node, "fwd.recv", mid=mid, source=tx.node.name)
    stage.send(mid, rx, qos=0)
    yield 0


@CASES.near_miss
def level_raised_too_late(stage: Stage) -> Actor:
    """The subscriber's node begins to write the rows of messages only when this one has gone to the subscriber."""
    tx, rx = _silent_pair(stage)
    mid = stage.accept(tx, stage.topic)
    stage.route(mid, tx.node)
    stage.say(tx.node, "fwd.send", mid=mid, target=rx.node.name)
    stage.forwarded(mid, tx.node, rx.node)
    stage.ack(mid, tx)
    yield 20
    stage.say(rx.node, "config.change", key=LEVEL, old="session", new="message")


@CASES.near_miss
def accepted_before_the_level_was_raised(stage: Stage) -> Actor:
    """The publisher's node wrote no rows of messages when it accepted this one."""
    rx = stage.client(stage.node())
    stage.subscribe(rx, stage.topic)
    node = stage.node()
    _change_start(stage, level="session")
    tx = stage.client(node, "tx", 0)
    mid = stage.scene.mid(tx.node)
    stage.send(mid, rx, qos=0)
    yield 20
    stage.say(node, "config.change", key=LEVEL, old="session", new="message")
    stage.send(mid, rx, qos=0)


@CASES.anomaly
def lost_after_the_level_was_raised(stage: Stage) -> Actor:
    """A1: all nodes write the rows of messages by then. To lower the level again takes nothing from these."""
    tx, rx = _silent_pair(stage)
    stage.say(rx.node, "config.change", key=LEVEL, old="session", new="message")
    yield 5
    mid = stage.accept(tx, stage.topic)
    stage.route(mid, tx.node)
    stage.ack(mid, tx)
    stage.expect_of("A1", "stale-route", rx, mid)
    yield 5
    stage.say(rx.node, "config.change", key=LEVEL, old="message", new="session")

"""Planted cases of the order of messages and of retained messages: A6, A15, A16."""

from __future__ import annotations

from ..findings import Subject
from ..rows import MessageId
from .catalogue import Catalogue
from .clients import Client
from .scene import Actor, Node
from .stage import Stage

CASES = Catalogue()


def _swapped(stage: Stage, first: str, second: str, filter: str = "", qos: tuple[int, int] = (1, 1)) -> Actor:
    """Two messages are sent in the other order. Returns the id of the one that was behind."""
    tx, rx = stage.pair(filter or f"{stage.topic}/#")
    mids = [
        stage.published(tx, rx, topic=f"{stage.topic}/{topic}", qos=each)
        for topic, each in ((first, qos[0]), (second, qos[1]))
    ]
    for mid, each in zip(reversed(mids), reversed(qos), strict=True):
        stage.got(mid, rx, stage.send(mid, rx, each), each)
    if (first, qos[0]) == (second, qos[1]) and not filter:
        stage.expect_of("A6", "behind a later one", rx, mids[0])
    yield 0


@CASES.anomaly
def reordered(stage: Stage) -> Actor:
    """A6: the second message of a lane is sent first."""
    yield from _swapped(stage, "a", "a")


@CASES.near_miss
def other_topic(stage: Stage) -> Actor:
    """No order is promised across topics."""
    yield from _swapped(stage, "a", "b")


@CASES.near_miss
def other_qos(stage: Stage) -> Actor:
    """No order is promised across QoS."""
    yield from _swapped(stage, "a", "a", qos=(2, 1))


@CASES.near_miss
def order_of_a_group(stage: Stage) -> Actor:
    """A shared subscription has no order."""
    yield from _swapped(stage, "a", "a", f"$share/g/{stage.topic}/#")


@CASES.near_miss
def expiry_undone_by_a_kill(stage: Stage) -> Actor:
    """The first message expired, the second was sent, and a kill undid the expiry: the first one comes late."""
    tx, rx = stage.pair()
    first, second = stage.published(tx, rx), stage.published(tx, rx)
    stage.of_session(rx, "q.expire", topic=stage.topic, mid=first)
    packet_id = stage.send(second, rx)
    yield from stage.kill(tx.node)
    stage.connect(rx, present=True)
    stage.of_session(rx, "q.depth", count=2)
    stage.got(first, rx, stage.send(first, rx))
    stage.got(second, rx, stage.send(second, rx, packet_id=packet_id, dup=True))


@CASES.near_miss
def newest_first(stage: Stage) -> Actor:
    """The queue gives the newest message first, as its node's settings say."""
    tx, rx = stage.pair()
    stage.say(tx.node, "config.change", key="queue_type", new="lifo")
    mids = [stage.published(tx, rx) for _ in range(2)]
    for mid in reversed(mids):
        stage.got(mid, rx, stage.send(mid, rx))
    yield 0


@CASES.near_miss
def other_connection(stage: Stage) -> Actor:
    """The publisher has connected again between the messages."""
    tx, rx = stage.pair()
    first = stage.published(tx, rx)
    stage.close(tx)
    stage.connect(tx)
    second = stage.published(tx, rx)
    for mid in (second, first):
        stage.got(mid, rx, stage.send(mid, rx))
    yield 0


def _retained(stage: Stage, wait: int, wrong: bool) -> Actor:
    tx, rx = stage.pair("elsewhere")
    mids = []
    for _ in range(2):
        mid = stage.accept(tx, stage.topic, retain=True)
        stage.retain(mid, tx.node, stage.topic)
        stage.route(mid, tx.node)
        stage.ack(mid, tx)
        mids.append(mid)
    yield wait
    stage.subscribe(rx, stage.topic)
    stage.of_session(rx, "ret.deliver", topic=stage.topic, mid=mids[0])
    stage.got(mids[0], rx, stage.send(mids[0], rx))
    if wrong:
        stage.expect_of("A16", "stale", rx, mids[0], "error")


@CASES.anomaly
def retained_stale(stage: Stage) -> Actor:
    """A16: a new subscriber gets an older retained message than one that was acknowledged 11 s ago."""
    yield from _retained(stage, 11_000, True)


@CASES.near_miss
def retained_on_its_way(stage: Stage) -> Actor:
    """The newer one was acknowledged 5 s ago: another node may not know it yet."""
    yield from _retained(stage, 5_000, False)


MINUTE = 61_000
"""Longer than a node may not know of another retained message, in ms."""


def _kept(stage: Stage, first: bool) -> tuple[Client, Node]:
    """Returns a publisher at one of two nodes that see each other, and the other one. `first`: both keep a message."""
    tx, other = stage.client(stage.node(), "tx", 0), stage.node()
    for node, seen in ((tx.node, other), (other, tx.node)):
        stage.say(node, "mem.up", target=seen.name, view=1)
    if first:
        mid = stage.accept(tx, stage.topic, retain=True)
        for node in (tx.node, other):
            stage.retain(mid, node, stage.topic)
        stage.ack(mid, tx)
    return tx, other


def _changed(stage: Stage, tx: Client) -> MessageId:
    mid = stage.accept(tx, stage.topic, retain=True)
    stage.retain(mid, tx.node, stage.topic)
    stage.ack(mid, tx)
    return mid


@CASES.anomaly
def retained_differs(stage: Stage) -> Actor:
    """A15: a node still keeps the message before the last one, a minute later."""
    tx, other = _kept(stage, True)
    _changed(stage, tx)
    stage.expect("A15", "different", Subject(other.name, topic=stage.topic))
    yield MINUTE


@CASES.anomaly
def retained_missing(stage: Stage) -> Actor:
    """A15: a node never gets the retained message of a topic."""
    tx, other = _kept(stage, False)
    _changed(stage, tx)
    stage.expect("A15", "missing", Subject(other.name, topic=stage.topic))
    yield MINUTE


@CASES.anomaly
def retained_kept_by_one(stage: Stage) -> Actor:
    """A15: a message has expired at one node, and the other one keeps it."""
    tx, other = _kept(stage, True)
    stage.say(tx.node, "ret.set", topic=stage.topic, bytes=0, digest="0")
    stage.expect("A15", "different", Subject(other.name, topic=stage.topic))
    yield MINUTE


@CASES.near_miss
def retained_takes_a_while(stage: Stage) -> Actor:
    """A node takes the last change over after half a minute, and the end of the message as well."""
    tx, other = _kept(stage, True)
    mid = _changed(stage, tx)
    yield MINUTE // 2
    stage.retain(mid, other, stage.topic)
    yield MINUTE
    for node in (other, tx.node):
        stage.say(node, "ret.set", topic=stage.topic, bytes=0, digest="0")
        yield 10
    yield MINUTE


@CASES.near_miss
def retained_at_a_node_that_was_away(stage: Stage) -> Actor:
    """One node was killed after the change, and another one is out of the view."""
    tx, other = _kept(stage, True)
    third = stage.node()
    stage.say(tx.node, "mem.up", target=third.name, view=2)
    stage.say(tx.node, "mem.down", target=third.name, view=3)
    _changed(stage, tx)
    yield from stage.kill(other)
    yield MINUTE


@CASES.near_miss
def retained_late_in_the_log(stage: Stage) -> Actor:
    """The logs end half a minute after the change."""
    tx, _ = _kept(stage, True)
    _changed(stage, tx)
    yield MINUTE // 2


@CASES.near_miss
def retained_replaced_by_one_left_out(stage: Stage) -> Actor:
    """Another node has the next message of the topic already, which the log leaves out."""
    tx, other = _kept(stage, True)
    stage.say(other, "log.sample", state="begin")
    _changed(stage, tx)
    stage.say(other, "log.sample", state="end", count=1)
    yield MINUTE


@CASES.near_miss
def retained_in_a_split(stage: Stage) -> Actor:
    """The logs end half a minute after the heal."""
    tx, other = _kept(stage, True)
    split = {"nodes": [other.name], "incident": 1, "state": "majority", "window_ms": 20}
    stage.say(tx.node, "split.detect", **split)
    _changed(stage, tx)
    yield MINUTE
    stage.say(tx.node, "split.heal", **split)
    stage.expect("A20", "majority", Subject(tx.node.name, detail="incident 1"), "metric")
    yield MINUTE // 2


@CASES.anomaly
def retained_not_merged(stage: Stage) -> Actor:
    """A15: the change does not come over after the heal."""
    tx, other = _kept(stage, True)
    split = {"nodes": [other.name], "incident": 1, "state": "majority", "window_ms": 20}
    stage.say(tx.node, "split.detect", **split)
    _changed(stage, tx)
    yield MINUTE
    stage.say(tx.node, "split.heal", **split)
    stage.expect("A20", "majority", Subject(tx.node.name, detail="incident 1"), "metric")
    stage.expect("A15", "different", Subject(other.name, topic=stage.topic))
    yield MINUTE

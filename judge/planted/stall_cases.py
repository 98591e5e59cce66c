"""Planted cases of sessions to which nothing is sent for long: A8."""

from __future__ import annotations

from ..findings import Subject
from ..rows import MessageId
from .catalogue import Catalogue
from .clients import Client
from .scene import Actor
from .stage import Stage

CASES = Catalogue()
LONG_MS = 11_000
"""Longer than a node may send nothing, in ms."""


def _pair(stage: Stage, receive_max: int = 20) -> tuple[Client, Client]:
    """Returns a publisher, and a subscriber that accepts so many messages at once."""
    tx = stage.client(stage.node(), "tx", 0)
    rx = Client(f"{stage.name}-rx", tx.node, 3600, receive_max=receive_max)
    stage.connect(rx)
    stage.subscribe(rx, stage.topic, 2)
    return tx, rx


def _expect(stage: Stage, rx: Client) -> None:
    """The node sends nothing from its last row on."""
    detail = f"{rx.node.name}, boot {rx.node.boot}, row {rx.node.seq}"
    stage.expect("A8", "stall", Subject(rx.node.name, "", rx.name, 1, detail=detail), "error")


def _of_connection(stage: Stage, client: Client, kind: str) -> None:
    stage.say(client.node, kind, client=client.name, conn=client.conn)


@CASES.anomaly
def stalled(stage: Stage) -> Actor:
    """A8: a message waits for 11 s behind one that was sent and answered."""
    tx, rx = _pair(stage)
    first, second = stage.published(tx, rx), stage.published(tx, rx)
    packet_id = stage.send(first, rx)
    _expect(stage, rx)
    stage.got(first, rx, packet_id)
    yield LONG_MS
    stage.got(second, rx, stage.send(second, rx))


@CASES.near_miss
def sends_what_the_log_leaves_out(stage: Stage) -> Actor:
    """The log lacks what the node sends meanwhile: other messages, which it has left out."""
    tx, rx = _pair(stage)
    mid = stage.published(tx, rx)
    stage.say(tx.node, "log.sample", state="begin")
    stage.say(tx.node, "log.sample", state="end", count=9)
    yield LONG_MS
    stage.got(mid, rx, stage.send(mid, rx))


@CASES.anomaly
def stalled_with_room_again(stage: Stage) -> Actor:
    """A8: the client answers and so has room, and nothing follows."""
    tx, rx = _pair(stage, receive_max=1)
    first, second = stage.published(tx, rx), stage.published(tx, rx)
    packet_id = stage.send(first, rx)
    yield 5000
    stage.got(first, rx, packet_id)
    _expect(stage, rx)
    yield LONG_MS
    stage.got(second, rx, stage.send(second, rx))


@CASES.anomaly
def stalled_after_the_client_reads_again(stage: Stage) -> Actor:
    """A8: the client did not read for a while, reads again, and nothing follows."""
    tx, rx = _pair(stage)
    mid = stage.published(tx, rx)
    _of_connection(stage, rx, "dlv.pause")
    yield 5000
    _of_connection(stage, rx, "dlv.resume")
    _expect(stage, rx)
    yield LONG_MS
    stage.got(mid, rx, stage.send(mid, rx))


@CASES.anomaly
def stalled_until_it_connects_again(stage: Stage) -> Actor:
    """A8: two messages wait for 12 s; the client connects again, and gets them at once."""
    tx, rx = _pair(stage)
    _expect_from_subscribe(stage, rx)
    mids = [stage.published(tx, rx) for _ in range(2)]
    yield LONG_MS + 1000
    stage.close(rx)
    yield 20
    stage.connect(rx, present=True)
    stage.of_session(rx, "q.depth", count=2)
    for mid in mids:
        stage.got(mid, rx, stage.send(mid, rx))


def _expect_from_subscribe(stage: Stage, rx: Client) -> None:
    """The node has sent nothing since conn.open, which three rows follow: of the session, sub.add and sub.ack."""
    detail = f"{rx.node.name}, boot {rx.node.boot}, row {rx.node.seq - 3}"
    stage.expect("A8", "stall", Subject(rx.node.name, "", rx.name, 1, detail=detail), "error")


@CASES.anomaly
def stalled_at_the_end_of_the_log(stage: Stage) -> Actor:
    """A8: a message with QoS 0 waits for 11 s, and the log ends."""
    tx, rx = _pair(stage)
    _expect_from_subscribe(stage, rx)
    mid = stage.accept(tx, stage.topic, 0)
    stage.route(mid, tx.node, rx)
    stage.enqueue(mid, rx, stage.topic, 0)
    yield LONG_MS


@CASES.near_miss
def client_does_not_read(stage: Stage) -> Actor:
    """Nothing is sent for 11 s, of which the client does not read for 8."""
    tx, rx = _pair(stage)
    mid = stage.published(tx, rx)
    yield 3000
    _of_connection(stage, rx, "dlv.pause")
    yield 7000
    _of_connection(stage, rx, "dlv.resume")
    yield 1000
    stage.got(mid, rx, stage.send(mid, rx))


@CASES.near_miss
def client_does_not_answer(stage: Stage) -> Actor:
    """So many messages as it accepts are under way for 11 s: of one it has PUBREL, which it does not answer."""
    tx, rx = _pair(stage, receive_max=2)
    mids = [stage.published(tx, rx, qos=qos) for qos in (2, 1, 1)]
    first, second = stage.send(mids[0], rx, 2), stage.send(mids[1], rx)
    of = {"client": rx.name, "conn": rx.conn, "packet_id": first}
    stage.say(rx.node, "dlv.ack", mid=mids[0], **of, code=0)
    stage.say(rx.node, "dlv.rel", **of)
    yield LONG_MS
    stage.say(rx.node, "dlv.comp", **of)
    stage.got(mids[2], rx, stage.send(mids[2], rx))
    stage.got(mids[1], rx, second)


@CASES.near_miss
def long_backlog(stage: Stage) -> Actor:
    """A message waits for 12 s behind others, one of which is sent each 4 s."""
    tx, rx = _pair(stage, receive_max=1)
    for mid in [stage.published(tx, rx) for _ in range(4)]:
        packet_id = stage.send(mid, rx)
        yield 4000
        stage.got(mid, rx, packet_id)


@CASES.near_miss
def client_is_away(stage: Stage) -> Actor:
    """A message waits until its client connects again."""
    tx, rx = _pair(stage)
    stage.close(rx)
    mid = stage.published(tx, rx)
    yield LONG_MS
    stage.connect(rx, present=True)
    stage.of_session(rx, "q.depth", count=1)
    stage.got(mid, rx, stage.send(mid, rx))


@CASES.near_miss
def disk_is_slow(stage: Stage) -> Actor:
    """A message with QoS 2 is safe on the disk after 11 s, and leaves then."""
    tx, rx = _pair(stage)
    mid = stage.accept(tx, stage.topic, 2)
    stage.route(mid, tx.node, rx)
    stage.enqueue(mid, rx, stage.topic, 2, safe=False)
    yield LONG_MS
    stage.safe(mid, rx, 2)
    stage.ack(mid, tx, 2)
    stage.got(mid, rx, stage.send(mid, rx, 2), 2)


def _held(stage: Stage, tx: Client, rx: Client) -> tuple[MessageId, MessageId]:
    """A message with QoS 2 enters the queue and is not safe there; one with QoS 0 follows."""
    mid = stage.accept(tx, stage.topic, 2)
    stage.route(mid, tx.node, rx)
    stage.enqueue(mid, rx, stage.topic, 2, safe=False)
    behind = stage.accept(tx, stage.topic, 0)
    stage.route(behind, tx.node, rx)
    stage.enqueue(behind, rx, stage.topic, 0)
    return mid, behind


@CASES.near_miss
def behind_the_disk(stage: Stage) -> Actor:
    """A message waits for 11 s behind one with QoS 2, which is safe on the disk then, and has expired."""
    tx, rx = _pair(stage)
    mid, behind = _held(stage, tx, rx)
    yield LONG_MS
    stage.safe(mid, rx, 2)
    stage.ack(mid, tx, 2)
    stage.of_session(rx, "q.expire", topic=stage.topic, mid=mid)
    stage.send(behind, rx, 0)


@CASES.anomaly
def stalled_before_the_disk(stage: Stage) -> Actor:
    """A8: a message waits for 11 s; one with QoS 2 that is not safe on the disk is behind it."""
    tx, rx = _pair(stage)
    _expect_from_subscribe(stage, rx)
    first = stage.published(tx, rx)
    mid, behind = _held(stage, tx, rx)
    yield LONG_MS
    stage.got(first, rx, stage.send(first, rx))
    stage.safe(mid, rx, 2)
    stage.ack(mid, tx, 2)
    stage.got(mid, rx, stage.send(mid, rx, 2), 2)
    stage.send(behind, rx, 0)


@CASES.anomaly
def stalled_after_the_disk(stage: Stage) -> Actor:
    """A8: a message waits behind one with QoS 2, and for 11 s more when that is safe on the disk and has expired."""
    tx, rx = _pair(stage)
    _expect_from_subscribe(stage, rx)
    mid, behind = _held(stage, tx, rx)
    yield LONG_MS
    stage.safe(mid, rx, 2)
    stage.ack(mid, tx, 2)
    stage.of_session(rx, "q.expire", topic=stage.topic, mid=mid)
    yield LONG_MS
    stage.send(behind, rx, 0)


@CASES.near_miss
def dropped_while_it_waits(stage: Stage) -> Actor:
    """A message expires in the queue; the node says so."""
    tx, rx = _pair(stage)
    mid = stage.published(tx, rx)
    yield LONG_MS
    stage.of_session(rx, "q.expire", topic=stage.topic, mid=mid)


@CASES.near_miss
def node_stands_still(stage: Stage) -> Actor:
    """A node stands still for 11 s, and another one takes it for dead."""
    tx, rx = _pair(stage)
    other = stage.node()
    stage.say(other, "mem.up", target=rx.node.name, view=1)
    mid = stage.published(tx, rx)
    yield 3000
    stage.say(other, "mem.down", target=rx.node.name, view=2)
    yield LONG_MS
    stage.got(mid, rx, stage.send(mid, rx))
    stage.say(other, "mem.up", target=rx.node.name, view=3)


@CASES.near_miss
def gone_with_its_boot(stage: Stage) -> Actor:
    """A message that was neither safe nor acknowledged goes with its boot, and its client connects again."""
    tx, rx = _pair(stage)
    mid = stage.accept(tx, stage.topic)
    stage.route(mid, tx.node, rx)
    stage.enqueue(mid, rx, stage.topic, safe=False)
    yield from stage.kill(rx.node)
    stage.connect(rx, present=True)
    stage.of_session(rx, "q.depth", count=0)
    yield LONG_MS

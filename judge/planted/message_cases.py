"""Planted cases of single messages: A1 to A5, A9, A18."""

from __future__ import annotations

from dataclasses import replace

from ...cluster.identity import slot_of
from ..findings import Subject
from .catalogue import Catalogue
from .clients import Client
from .scene import Actor
from .stage import Stage

CASES = Catalogue()


@CASES.anomaly
def stale_route(stage: Stage) -> Actor:
    """A1: the origin did not know the subscription."""
    tx, rx = stage.pair()
    stage.expect_of("A1", "stale-route", rx, stage.published(tx))
    yield 0


@CASES.near_miss
def subscribed_too_late(stage: Stage) -> Actor:
    """The SUBACK left after the node accepted the message."""
    tx, rx = stage.pair("elsewhere")
    stage.of_session(rx, "sub.add", filter=stage.topic, qos=1)
    mid = stage.accept(tx, stage.topic)
    stage.answer(rx, "sub.ack", stage.topic, 1)
    stage.route(mid, tx.node)
    stage.ack(mid, tx)
    yield 0


@CASES.near_miss
def no_acknowledgement(stage: Stage) -> Actor:
    """Its publisher knows that the message may be lost."""
    tx, _ = stage.pair()
    stage.accept(tx, stage.topic)
    yield 0


@CASES.near_miss
def refused(stage: Stage) -> Actor:
    """PUBACK had the code 0x97, quota exceeded."""
    tx, _ = stage.pair()
    stage.ack(stage.accept(tx, stage.topic), tx, code=0x97)
    yield 0


@CASES.near_miss
def without_qos(stage: Stage) -> Actor:
    """Nothing is promised for QoS 0, of the message or of the subscription."""
    tx, _ = stage.pair(qos=0)
    stage.published(tx)
    rx = stage.client(tx.node, "ry")
    stage.subscribe(rx, "other")
    stage.route(stage.accept(tx, "other", 0), tx.node)
    yield 0


@CASES.anomaly
def routed_and_never_queued(stage: Stage) -> Actor:
    """A1: the router chose the session, and its queue never had the message."""
    tx, rx = stage.pair()
    mid = stage.accept(tx, stage.topic)
    stage.route(mid, tx.node, rx)
    stage.ack(mid, tx)
    stage.expect_of("A1", "queue", rx, mid)
    yield 0


@CASES.anomaly
def lost_on_a_link(stage: Stage) -> Actor:
    """A1: it was sent to the session's node, and did not arrive there."""
    tx, rx = stage.far_pair()
    mid = stage.accept(tx, stage.topic)
    stage.route(mid, tx.node)
    stage.say(tx.node, "fwd.send", mid=mid, target=rx.node.name)
    stage.ack(mid, tx)
    stage.expect_of("A1", "forward", rx, mid)
    yield 0


@CASES.anomaly
def lost_behind_a_link(stage: Stage) -> Actor:
    """A1: it arrived at the session's node, which did not know the subscription."""
    tx, rx = stage.far_pair()
    mid = stage.accept(tx, stage.topic)
    stage.route(mid, tx.node)
    stage.forward(mid, tx.node, rx.node)
    stage.route(mid, rx.node)
    stage.forwarded(mid, tx.node, rx.node)
    stage.ack(mid, tx)
    stage.expect_of("A1", "stale-route", rx, mid)
    yield 0


@CASES.anomaly
def killed_before_the_disk(stage: Stage) -> Actor:
    """A1: acknowledged, not safe, and the node was killed."""
    tx, rx = stage.pair()
    stage.expect_of("A1", "queue", rx, stage.published(tx, rx, safe=False))
    yield from stage.kill(tx.node)
    stage.connect(rx, present=True)


@CASES.near_miss
def killed_behind_the_disk(stage: Stage) -> Actor:
    """A kill ends a clean session with its messages. A durable one has the message on disk, and gets it later."""
    tx, rx = stage.pair()
    clean = stage.client(tx.node, "ry", 0)
    stage.subscribe(clean, stage.topic)
    mid = stage.published(tx, rx, clean)
    yield from stage.kill(tx.node)
    stage.connect(rx, present=True)
    stage.of_session(rx, "q.depth", count=1)
    stage.got(mid, rx, stage.send(mid, rx))


@CASES.anomaly
def gone_from_the_queue(stage: Stage) -> Actor:
    """A1: after the restart the queue is shorter than the log says. The oldest one is named."""
    tx, rx = stage.pair()
    first, _ = stage.published(tx, rx), stage.published(tx, rx)
    yield from stage.kill(tx.node)
    stage.connect(rx, present=True)
    stage.of_session(rx, "q.depth", count=1)
    stage.expect_of("A1", "gone", rx, first)


@CASES.near_miss
def waiting(stage: Stage) -> Actor:
    """The client is away, and its queue is as long as the log says."""
    tx, rx = stage.pair()
    stage.close(rx)
    for _ in range(3):
        stage.published(tx, rx)
        yield 1
    stage.connect(rx, present=True)
    stage.of_session(rx, "q.depth", count=3)


@CASES.anomaly
def overtaken(stage: Stage) -> Actor:
    """A1: a later message of the same lane was sent, this one never."""
    tx, rx = stage.pair()
    stage.expect_of("A1", "overtaken", rx, stage.published(tx, rx))
    stage.delivered(tx, rx)
    yield 0


@CASES.anomaly
def not_resent(stage: Stage) -> Actor:
    """A1: after a resumption a later message is sent, and the unanswered one is not sent again."""
    tx, rx = stage.pair()
    mid = stage.published(tx, rx)
    stage.send(mid, rx)
    stage.close(rx)
    yield 5
    stage.connect(rx, present=True)
    stage.delivered(tx, rx)
    stage.expect_of("A1", "not-resent", rx, mid)


@CASES.near_miss
def resent(stage: Stage) -> Actor:
    """After a resumption the unanswered message is sent again, with its packet id and DUP."""
    tx, rx = stage.pair()
    mid = stage.published(tx, rx, qos=2)
    packet_id = stage.send(mid, rx, 2)
    stage.close(rx)
    yield 5
    stage.connect(rx, present=True)
    stage.send(mid, rx, 2, packet_id, dup=True)
    stage.got(mid, rx, packet_id, 2)
    stage.delivered(tx, rx, 2)


@CASES.near_miss
def dropped_with_a_reason(stage: Stage) -> Actor:
    """A full queue, and an expiry interval."""
    tx, rx = stage.pair()
    for kind, more in (("q.drop", {"reason": "queue_full"}), ("q.expire", {})):
        mid = stage.published(tx, rx)
        stage.of_session(rx, kind, topic=stage.topic, mid=mid, **more)
    stage.delivered(tx, rx)
    yield 0


@CASES.anomaly
def lost_for_a_group(stage: Stage) -> Actor:
    """A1: no member of a shared subscription got it."""
    text = f"$share/g/{stage.topic}"
    tx, _ = stage.pair(text)
    mid = stage.published(tx)
    stage.expect("A1", "stale-route", Subject("", "", text, 0, mid))
    yield 0


@CASES.near_miss
def one_member_of_a_group(stage: Stage) -> Actor:
    """Any member will do, also one of another node; or none, if the log says so."""
    text = f"$share/g/{stage.topic}"
    tx, _ = stage.pair(text)
    other = stage.client(stage.node(), "ry")
    stage.subscribe(other, text)
    mid = stage.accept(tx, stage.topic)
    stage.route(mid, tx.node)
    stage.forward(mid, tx.node, other.node)
    stage.route(mid, other.node, other)
    stage.enqueue(mid, other, stage.topic)
    stage.forwarded(mid, tx.node, other.node)
    stage.ack(mid, tx)
    stage.got(mid, other, stage.send(mid, other))
    mid = stage.published(tx)
    stage.say(tx.node, "q.drop", client=text, topic=stage.topic, reason="no_member", mid=mid)
    yield 0


def _early(stage: Stage, tx: Client, rx: Client, late: str, right: str = "lease") -> None:
    mid = stage.accept(tx, stage.topic)
    stage.route(mid, tx.node, rx)
    if late == "disk":
        stage.enqueue(mid, rx, stage.topic, safe=False)
    stage.ack(mid, tx, right=right)
    if late == "queue":
        stage.enqueue(mid, rx, stage.topic, safe=False)
    stage.safe(mid, rx)
    stage.got(mid, rx, stage.send(mid, rx))
    if right == "lease":
        stage.expect_of("A2", late, rx, mid)


@CASES.anomaly
def acknowledged_before_the_disk(stage: Stage) -> Actor:
    """A2: PUBACK left before the entry of the queue was safe."""
    tx, rx = stage.pair()
    _early(stage, tx, rx, "disk")
    yield 0


@CASES.anomaly
def acknowledged_before_the_queue(stage: Stage) -> Actor:
    """A2: PUBACK left before the message entered the queue."""
    tx, rx = stage.pair()
    _early(stage, tx, rx, "queue")
    yield 0


@CASES.near_miss
def acknowledged_for_an_absent_node(stage: Stage) -> Actor:
    """The session's node is out of the view: it gets the message when it is back."""
    tx, rx = stage.pair()
    other = stage.client(stage.node(), "ry")
    stage.subscribe(other, stage.topic)
    stage.say(tx.node, "mem.down", target=other.node.name, view=2)
    mid = stage.published(tx, rx)
    stage.got(mid, rx, stage.send(mid, rx))
    yield 50
    stage.say(tx.node, "mem.up", target=other.node.name, view=3)
    stage.forward(mid, tx.node, other.node)
    stage.route(mid, other.node, other)
    stage.enqueue(mid, other, stage.topic)
    stage.got(mid, other, stage.send(mid, other))


@CASES.near_miss
def safe_too_late_at_its_former_node(stage: Stage) -> Actor:
    """The session's node stood still. Another one got the session with the message, and the publisher its answer."""
    tx, rx = stage.far_pair()
    stage.close(rx)
    mid = stage.accept(tx, stage.topic)
    stage.route(mid, tx.node)
    stage.forward(mid, tx.node, rx.node)
    stage.route(mid, rx.node, rx)
    stage.enqueue(mid, rx, stage.topic, safe=False)
    former = replace(rx)
    rx.node = stage.node()
    stage.say(rx.node, "slot.arrive", slot=slot_of("", rx.name))
    yield 5
    stage.ack(mid, tx)
    stage.connect(rx, present=True)
    stage.of_session(rx, "q.depth", count=1)
    stage.got(mid, rx, stage.send(mid, rx))
    yield 5
    stage.safe(mid, former)


@CASES.anomaly
def never_accepted(stage: Stage) -> Actor:
    """A3: no client published it."""
    tx, rx = stage.pair()
    mid = (tx.node.name, tx.node.boot, 999_999)
    stage.got(mid, rx, stage.send(mid, rx))
    stage.expect_of("A3", "never accepted", rx, mid)
    yield 0


@CASES.anomaly
def no_subscription(stage: Stage) -> Actor:
    """A3: the session never had a matching subscription."""
    tx, rx = stage.pair("elsewhere/#")
    mid = stage.published(tx, rx)
    stage.got(mid, rx, stage.send(mid, rx))
    stage.expect_of("A3", "no subscription", rx, mid)
    yield 0


@CASES.anomaly
def unsubscribe_undone(stage: Stage) -> Actor:
    """A3 and A18: the session had unsubscribed before."""
    tx, rx = stage.pair()
    stage.unsubscribe(rx, stage.topic)
    mid = stage.published(tx, rx)
    stage.got(mid, rx, stage.send(mid, rx))
    stage.expect_of("A3", "no subscription", rx, mid)
    stage.expect_of("A18", "delivered", rx, mid, "error")
    yield 0


@CASES.near_miss
def unsubscribed_meanwhile(stage: Stage) -> Actor:
    """The message was accepted before the UNSUBSCRIBE, and sent behind it."""
    tx, rx = stage.pair()
    mid = stage.published(tx, rx)
    stage.unsubscribe(rx, stage.topic)
    stage.got(mid, rx, stage.send(mid, rx))
    yield 0


@CASES.anomaly
def sent_again(stage: Stage) -> Actor:
    """A4: QoS 1, answered, and sent again."""
    tx, rx = stage.pair()
    mid = stage.delivered(tx, rx)
    stage.send(mid, rx, dup=True)
    stage.expect_of("A4", "sent again after its acknowledgement", rx, mid, "info")
    yield 0


@CASES.near_miss
def retained_for_each_subscribe(stage: Stage) -> Actor:
    """A retained message comes again for each SUBSCRIBE, also behind newer ones."""
    tx, rx = stage.pair()
    mid = stage.accept(tx, stage.topic, retain=True)
    stage.retain(mid, tx.node, stage.topic)
    stage.route(mid, tx.node, rx)
    stage.enqueue(mid, rx, stage.topic)
    stage.ack(mid, tx)
    stage.got(mid, rx, stage.send(mid, rx))
    stage.delivered(tx, rx)
    stage.subscribe(rx, stage.topic)
    stage.of_session(rx, "ret.deliver", topic=stage.topic, mid=mid)
    stage.got(mid, rx, stage.send(mid, rx))
    yield 0


@CASES.anomaly
def qos2_with_another_id(stage: Stage) -> Actor:
    """A5: the receiver cannot know that it is the same message."""
    tx, rx = stage.pair()
    mid = stage.published(tx, rx, qos=2)
    stage.send(mid, rx, 2)
    stage.send(mid, rx, 2, dup=True)
    stage.expect_of("A5", "sent twice", rx, mid)
    yield 0


@CASES.anomaly
def qos2_as_a_new_message(stage: Stage) -> Actor:
    """A5: answered, and sent again with the same packet id and without DUP."""
    tx, rx = stage.pair()
    mid = stage.published(tx, rx, qos=2)
    packet_id = stage.send(mid, rx, 2)
    stage.got(mid, rx, packet_id, 2)
    stage.send(mid, rx, 2, packet_id)
    stage.expect_of("A5", "sent twice", rx, mid)
    yield 0


@CASES.anomaly
def recovered(stage: Stage) -> Actor:
    """A9: delivered, although the publisher has no answer. This is allowed."""
    tx, rx = stage.pair()
    mid = stage.accept(tx, stage.topic)
    stage.route(mid, tx.node, rx)
    stage.enqueue(mid, rx, stage.topic)
    stage.got(mid, rx, stage.send(mid, rx))
    stage.expect_of("A9", "unacknowledged", rx, mid, "info")
    yield 0

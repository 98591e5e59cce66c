"""A5: QoS 2, more than once."""

from __future__ import annotations

import pytest

from strogoff.cluster.identity import slot_of

from ...testing.log_audit.log_builder import Log, two_nodes
from .found import findings, kinds


@pytest.mark.parametrize(
    ("answered", "same_id", "dup", "wrong"),
    [
        (False, True, False, False),
        (False, True, True, False),
        (False, False, True, True),
        (True, True, True, False),
        (True, True, False, True),
        (True, False, True, True),
    ],
)
def test_what_a_receiver_can_recognise(answered: bool, same_id: bool, dup: bool, wrong: bool) -> None:
    """The same packet id, and after its answer DUP."""
    log = Log()
    log.subscriber()
    mid = log.accept(qos=2)
    log.route(mid, "rx")
    log.ack(mid)
    log.send(mid, packet_id=5)
    if answered:
        log.got(mid, packet_id=5)
    log.send(mid, packet_id=5 if same_id else 6, dup=dup)
    assert kinds(log) == [("A5", "sent twice")] * wrong


@pytest.mark.parametrize(("granted", "wrong"), [
    ((1, 2), "A4"), ((2, 1), "A4"), ((1, 2, 1), "A4"), ((1, 2, 2), "A5"), ((2, 2, 1), "A5"),
])  # fmt: skip
def test_a_client_changes_the_qos_of_its_subscription_in_between(granted: tuple[int, ...], wrong: str) -> None:
    """A kill took the message from its queue, so its publisher sent it again. Only QoS 2 promises exactly once."""
    log = Log()
    log.subscriber()
    mid = log.accept(qos=2)
    log.route(mid, "rx")
    log.ack(mid)
    for packet_id, qos in enumerate(granted, 1):
        log.send(mid, packet_id=packet_id, qos=qos)
        log.got(mid, packet_id=packet_id)
    assert wrong in dict(kinds(log)) and ("A5" in dict(kinds(log))) is (wrong == "A5")


@pytest.mark.parametrize(("again", "ids", "wrong"), [(True, 2, False), (True, 3, True), (False, 2, True)])
def test_a_group_may_choose_its_member_again(again: bool, ids: int, wrong: bool) -> None:
    """The publisher sends again to another process, which does not know who had the message."""
    log = Log()
    log.subscriber(filter="$share/g/t/#", expiry_s=60)
    mid = log.accept(qos=2)
    log.say("q.enq", mid=mid, client="rx", group="$share/g/t/#")
    log.say("q.durable", mid=mid, client="rx")
    log.boot()
    log.connect("rx", present=True, expiry_s=60)
    if again:
        log.say("q.enq", mid=mid, client="rx", group="$share/g/t/#")
        log.say("q.durable", mid=mid, client="rx")
    log.ack(mid)
    for packet_id in range(1, 1 + ids):
        log.send(mid, packet_id=packet_id)
        log.got(mid, packet_id=packet_id)
        log.send(mid, packet_id=packet_id, dup=True)
    assert kinds(log) == [("A5", "sent twice")] * wrong


@pytest.mark.parametrize(("dup", "wrong"), [(True, False), (False, True)])
def test_a_member_of_two_groups_gets_it_once_for_each(dup: bool, wrong: bool) -> None:
    log = Log()
    filters = "$share/g/t/#", "$share/h/t/+"
    log.subscriber(filter=filters[0])
    log.subscribe(filter=filters[1])
    mid = log.accept(qos=2)
    for each in filters:
        log.say("q.enq", mid=mid, client="rx", group=each)
    log.ack(mid)
    for packet_id in (1, 2):
        log.send(mid, packet_id=packet_id)
        log.got(mid, packet_id=packet_id)
    log.send(mid, packet_id=1, dup=dup)
    assert kinds(log) == [("A5", "sent twice")] * wrong


@pytest.mark.parametrize("accepts", [True, False])
@pytest.mark.parametrize("durability", ["os", "sync"])
def test_a_loss_of_power_may_give_the_next_message_the_same_id(accepts: bool, durability: str) -> None:
    """Node `b` has lost the end of the publisher's handshake. That excuses nothing of a message that it never had."""
    a, b = two_nodes()
    b.say("config.change", key="message_store.durability", new=durability)
    a.subscriber()
    mid = a.accept(qos=2)
    a.route(mid, "rx")
    a.ack(mid)
    a.send(mid, packet_id=5)
    a.got(mid, packet_id=5)
    b.boot()
    b.say("node.start", retained=0, tail_lost=True)
    if accepts:
        b.say("pub.recv", mid=mid, client="tx", topic="t/1", qos=2)
    a.send(mid, packet_id=6)
    a.rows += b.rows
    assert [(each.kind, each.sure) for each in findings(a) if each.anomaly == "A5"] == [
        ("sent twice", durability == "sync" or not accepts)
    ]


@pytest.mark.parametrize("resumed", [True, False])
def test_a_node_that_stood_still_sends_to_a_connection_that_is_gone(resumed: bool) -> None:
    """The client has resumed its session at the next primary, and got the message there. Before that it may get it from
    both."""
    a, b = two_nodes()
    a.subscriber(expiry_s=60)
    mid = a.accept(qos=2)
    a.route(mid, "rx")
    a.ack(mid)
    b._qos[mid] = 2
    if not resumed:
        b.connect("rx", present=True, expiry_s=60)
    b.say("slot.arrive", slot=slot_of("", "rx"))
    if resumed:
        b.connect("rx", present=True, expiry_s=60)
    b.send(mid, packet_id=5, dup=True)
    b.got(mid, packet_id=5)
    a.send(mid, packet_id=5)
    a.rows += b.rows
    assert (("A5", "sent twice") in kinds(a)) is not resumed

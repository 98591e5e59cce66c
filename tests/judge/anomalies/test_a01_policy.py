"""A1: messages that a node without a lease acknowledged, because its policy is `on`, and that are lost with it."""

from __future__ import annotations

import pytest

from ...testing.log_audit.log_builder import two_nodes
from .found import kinds, split


@pytest.mark.parametrize("end", ["dies", "stops", ""])
def test_a_node_without_a_lease_takes_with_it_what_other_nodes_have_not_got(end: str) -> None:
    """Its copies for other nodes are in memory alone, and its publisher has the acknowledgement."""
    a, b = two_nodes()
    b.subscriber(expiry_s=60)
    a.say("lease.get", view=1)
    split(a)
    a.say("lease.lose", view=1)
    mid = a.accept()
    a.say("pub.route", mid=mid, targets=[])
    a.say("pub.ack", mid=mid, client="tx", right="policy")
    split(a, healed_ms=2, split_ms=1)
    if end == "stops":
        a.say("node.stop")
    if end == "dies":
        a.boot()
    a.rows += b.rows
    assert (("A1", "stale-route") in kinds(a)) is not bool(end)


@pytest.mark.parametrize(("lived_s", "lost"), [(4, False), (6, True)])
def test_a_node_dies_soon_after_it_has_got_a_lease_and_starts_late(lived_s: int, lost: bool) -> None:
    """It may have died at any time after its last row, not only at its next start."""
    a, b = two_nodes()
    b.subscriber(expiry_s=60)
    a.say("mem.view", view=1, nodes=["a", "b"], joining=[], missing=[])
    mid = a.accept()
    a.say("pub.route", mid=mid, targets=[], nodes=["b"])
    a.say("fwd.send", mid=mid, target="b", topic="t/1")
    a.say("lease.get", view=1)
    a.say("pub.ack", mid=mid, client="tx", right="policy")
    a.pass_s(lived_s, b)
    b.pass_s(10)
    a._now = b._now
    a.boot()
    a.rows += b.rows
    assert (("A1", "forward") in kinds(a)) is lost


@pytest.mark.parametrize(("origin", "lost"), [("#7", False), ("#8", True), ("a", True)])
def test_a_node_without_a_lease_loses_what_it_has_accepted_with_the_slot_of_its_publisher(
    origin: str, lost: bool
) -> None:
    """Other nodes take the copies of a QoS 2 message from the present primary of the slot alone (H-47)."""
    a, b = two_nodes()
    b.subscriber(expiry_s=60)
    a.say("lease.get", view=1)
    split(a)
    a.say("lease.lose", view=1)
    mid = origin, 3, 1
    a.say("pub.recv", mid=mid, client="tx", topic="t/1", qos=2, conn=1)
    a.say("pub.route", mid=mid, targets=[])
    a.say("pub.ack", mid=mid, client="tx", right="policy", qos=2)
    a.say("slot.taken", slot=7, target="b")
    split(a, healed_ms=6_000, split_ms=1)
    a.rows += b.rows
    assert (("A1", "stale-route") in kinds(a)) is lost


@pytest.mark.parametrize(
    ("how", "lost"), [("both die", False), ("told", True), ("lease", True), ("lives", True), ("alone", True)]
)
def test_a_queue_and_the_node_without_a_lease_that_filled_it_die(how: str, lost: bool) -> None:
    """Nobody sends the message again. A node that was told that it is safe, or lives, does not take it away."""
    a, b = two_nodes()
    origin = b if how == "alone" else a
    b.subscriber(expiry_s=60)
    mid = origin.accept()
    if how != "alone":
        a.say("pub.route", mid=mid, targets=[], nodes=["b"])
        a.say("fwd.send", mid=mid, target="b", topic="t/1")
        b.say("fwd.recv", mid=mid, source="a", topic="t/1")
    b.route(mid, "rx", durable=False)
    if how == "told":
        a.say("fwd.ack", mid=mid, target="b")
    origin.say("pub.ack", mid=mid, client="tx", right="lease" if how == "lease" else "policy")
    b.boot()
    if how != "lives":
        a.boot()
    a.rows += b.rows
    assert (("A1", "queue") in kinds(a)) is lost


@pytest.mark.parametrize("dies", [False, True])
def test_what_a_subscriber_was_sent_of_a_queue_dies_with_the_node_without_a_lease_that_filled_it(dies: bool) -> None:
    """The subscriber may have the message. Its queue gets it again only if the node that accepted it is still alive."""
    a, b = two_nodes()
    b.subscriber(expiry_s=60)
    mid = a.accept()
    a.say("pub.route", mid=mid, targets=[], nodes=["b"])
    a.say("fwd.send", mid=mid, target="b", topic="t/1")
    b.say("fwd.recv", mid=mid, source="a", topic="t/1")
    b.route(mid, "rx", durable=False)
    a.say("pub.ack", mid=mid, client="tx", right="policy")
    b.send(mid)
    b.boot()
    b.say("q.depth", client="rx", count=0)
    if dies:
        a.boot()
    a.rows += b.rows
    assert (("A1", "gone") in kinds(a)) is not dies


@pytest.mark.parametrize(("right", "left", "lost"), [
    ("policy", "before", False), ("policy", "after", True), ("lease", "before", True),
])  # fmt: skip
def test_a_subscription_ends_before_the_message_of_a_node_without_a_lease_arrives(
    right: str, left: str, lost: bool
) -> None:
    """By its policy, the node acknowledges what waits at it until the heal."""
    a, b = two_nodes()
    b.subscriber(expiry_s=60)
    mid = a.accept()
    a.say("pub.route", mid=mid, targets=[], nodes=["b"])
    a.say("pub.ack", mid=mid, client="tx", right=right)
    for step in ("before", "arrives", "after"):
        if step == left:
            b.say("sub.del", client="rx", filter="t/#")
        elif step == "arrives":
            b.say("fwd.recv", mid=mid, source="a", topic="t/1")
            b.say("pub.route", mid=mid, targets=[])
    a.rows += b.rows
    assert (("A1", "stale-route") in kinds(a)) is lost

"""A1: messages of groups that a kill takes from the queues of members."""

from __future__ import annotations

import pytest

from ...testing.log_audit.log_builder import Log, two_nodes
from .found import kinds


@pytest.mark.parametrize("saved", ["", "safe", "sent", "other", "closed", "group", "expired"])
def test_a_group_loses_a_message_with_the_queue_of_a_member(saved: str) -> None:
    """It was acknowledged, and safe nowhere. `saved`: what may have saved it."""
    log, group = Log(), "$share/g/t/#"
    for client in ("one", "two"):
        log.subscriber(client, group, expiry_s=60)
    mid = log.accept()
    log.say("q.enq", mid=mid, client="one", group=group)
    if saved == "safe":
        log.say("q.durable", mid=mid, client="one")
    elif saved == "sent":
        log.send(mid, "one")
    elif saved == "other":
        log.say("q.enq", mid=mid, client="two", group=group)
        log.say("q.durable", mid=mid, client="two")
    elif saved == "closed":
        log.say("conn.close", client="one", reason="closed")
    elif saved == "group":
        log.say("q.drop", client=group, topic="t/1", reason="no_member", mid=mid)
    elif saved == "expired":
        log.say("q.expire", client="two", topic="t/1", mid=mid)
    log.ack(mid)
    log.boot()
    assert kinds(log) == ([] if saved else [("A1", "queue")])


def test_an_expiry_for_a_client_outside_the_group_does_not_end_what_the_group_is_owed() -> None:
    """A member's queue had the message, and a kill took it. The other client had it of its own."""
    log, group = Log(), "$share/g/t/#"
    log.subscriber("one", group, expiry_s=60)
    log.subscriber("other", "t/#", expiry_s=60)
    mid = log.accept()
    log.say("q.enq", mid=mid, client="one", group=group)
    log.say("q.expire", client="other", topic="t/1", mid=mid)
    log.ack(mid)
    log.boot()
    assert kinds(log) == [("A1", "queue")]


@pytest.mark.parametrize("killed", [True, False])
def test_a_member_may_drop_a_message_if_a_kill_may_have_undone_its_unsubscribe(killed: bool) -> None:
    """The next process may have the member in the group, and the message is too old for it. Its row names no group."""
    log, group = Log(), "$share/g/t/#"
    for client in ("one", "two"):
        log.subscriber(client, group, expiry_s=60)
    log.say("sub.del", client="one", filter=group)
    if killed:
        log.boot()
    else:
        log.say("unsub.ack", client="one", filters=[group], codes=["0"])
    mid = log.accept()
    log.say("q.expire", client="one", topic="t/1", mid=mid)
    log.ack(mid)
    assert (("A1", "stale-route") in kinds(log)) is not killed


@pytest.mark.parametrize("ends", ["member", "subscription", ""])
def test_a_member_that_leaves_its_group_before_the_acknowledgement_is_owed_nothing(ends: str) -> None:
    log = Log()
    log.subscriber(filter="$share/g/t/#", expiry_s=60)
    mid = log.accept()
    log.say("pub.route", mid=mid, targets=[])
    if ends == "member":
        log.say("conn.close", client="rx", reason="peer_closed")
        log.say("sess.expire", client="rx")
    elif ends:
        log.say("sub.del", client="rx", filter="$share/g/t/#")
    log.ack(mid)
    assert (("A1", "stale-route") in kinds(log)) is not bool(ends)


@pytest.mark.parametrize("begins", ["cut off", "before", "healed"])
def test_a_member_that_subscribes_at_a_node_without_a_lease_is_unknown_to_the_others(begins: str) -> None:
    a, b = two_nodes()
    if begins == "before":
        b.subscriber(filter="$share/g/t/#", expiry_s=60)
    b.say("split.detect", nodes=["a"], incident=1, state="minority")
    if begins != "before":
        b.subscriber(filter="$share/g/t/#", expiry_s=60)
    if begins == "healed":
        b.say("split.change", nodes=[], incident=1, state="whole")
    a.ack(a.accept())
    a.rows += b.rows
    assert (("A1", "stale-route") in kinds(a)) is (begins != "cut off")

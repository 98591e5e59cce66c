"""A3: messages that nobody published, or that a session did not subscribe to."""

from __future__ import annotations

import pytest

from strogoff.cluster.identity import slot_of

from ...testing.log_audit.log_builder import NODE, Log, two_nodes
from .found import findings, kinds, proof


def test_a_message_that_nobody_published() -> None:
    """One finding, with its first sending. The log may lack messages of earlier boots."""
    log = Log()
    log.subscriber()
    for mid in ((NODE, 1, 77), (NODE, 1, 77), (NODE, 0, 1)):
        log.send(mid)
    (found,) = findings(log)
    assert found.kind == "never accepted" and proof(found, log) == ["dlv.send"]


def test_a_session_without_a_matching_subscription() -> None:
    """A subscription that matched at any time between PUBLISH and sending is enough."""
    log = Log()
    log.subscriber(filter="other")
    mid = log.accept()
    log.send(mid)
    log.subscribe()
    log.send(mid)
    assert kinds(log) == [("A3", "no subscription")]
    log.say("sub.del", client="rx", filter="t/#")
    log.say("unsub.ack", client="rx", filters=["t/#"], codes=["0"])
    log.send(log.accept())
    assert kinds(log) == [("A3", "no subscription"), ("A3", "no subscription"), ("A18", "delivered")]


def test_a_session_that_is_older_than_the_log() -> None:
    """It may have subscribed before."""
    log = Log()
    log.connect("rx", present=True)
    log.subscribe(filter="other")
    log.send(log.accept())
    assert kinds(log) == []


def test_a_kill_may_undo_an_unsubscribe_that_was_not_answered() -> None:
    """Then the subscription is still there."""
    for answered in (False, True):
        log = Log()
        log.subscriber(expiry_s=60)
        log.say("sub.del", client="rx", filter="t/#")
        if answered:
            log.say("unsub.ack", client="rx", filters=["t/#"], codes=["0"])
        log.boot()
        log.connect("rx", present=True)
        log.send(log.accept())
        assert kinds(log) == [("A3", "no subscription"), ("A18", "delivered")] * answered


@pytest.mark.parametrize("stood", [True, False])
def test_a_node_that_stood_still_does_not_know_of_an_unsubscribe_elsewhere(stood: bool) -> None:
    """It sends the message to a connection that has ended. The session's own node must not send it."""
    a, b = two_nodes()
    a.subscriber(expiry_s=60)
    b.say("slot.arrive", slot=slot_of("", "rx"))
    b.connect("rx", present=True, expiry_s=60)
    b.say("sess.resume", client="rx")
    b.say("sub.del", client="rx", filter="t/#")
    b.say("unsub.ack", client="rx", filters=["t/#"], codes=["0"])
    sender = a if stood else b
    mid = sender.accept()
    sender.send(mid)
    a.rows += b.rows
    assert (("A3", "no subscription") in kinds(a)) is not stood

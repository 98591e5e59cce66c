"""A3: messages that nobody published, or that a session did not subscribe to."""

from __future__ import annotations

from ...testing.log_audit.log_builder import NODE, Log
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

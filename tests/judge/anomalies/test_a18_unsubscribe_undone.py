"""A18: delivered after UNSUBSCRIBE."""

from __future__ import annotations

from ...testing.log_audit.log_builder import Log
from .found import kinds


def test_only_a_session_that_had_a_matching_subscription() -> None:
    log = Log()
    log.subscriber("rx", "t/1")
    log.subscriber("ry", "u/1")
    for client, filter in (("rx", "t/1"), ("ry", "u/1")):
        log.say("sub.del", client=client, filter=filter)
        log.say("unsub.ack", client=client, filters=[filter], codes=["0"])
    mid = log.accept(topic="t/1")
    log.send(mid, "rx")
    log.send(mid, "ry")
    assert kinds(log) == [("A3", "no subscription")] * 2 + [("A18", "delivered")]

"""A21: acknowledgements without a lease."""

from __future__ import annotations

from ...testing.log_audit.log_builder import Log
from .found import findings


def test_allowed_ones_are_counted_for_each_time_without_a_lease() -> None:
    log = Log()
    for count in (2, 3):
        log.say("split.detect", nodes=["b"], state="minority")
        for _ in range(count):
            log.say("pub.ack", mid=log.accept(), client="tx", right="policy")
        log.say("split.heal", nodes=["b"], state="minority")
    found = [each for each in findings(log) if each.anomaly == "A21"]
    assert [(each.kind, each.value, each.severity) for each in found] == [("policy", 2, "info"), ("policy", 3, "info")]
    assert len({each.id for each in found}) == 2


def test_a_lease_that_was_lost_gives_no_right() -> None:
    log = Log()
    for kind, wrong in (("lease.get", 0), ("lease.lose", 1), ("lease.get", 1), ("lease.lose", 2)):
        log.say(kind, view=1)
        log.say("pub.ack", mid=log.accept(), client="tx", right="lease")
        assert [each.kind for each in findings(log)] == ["lease"] * wrong

"""A4: QoS 1, sent again after its acknowledgement."""

from __future__ import annotations

import pytest

from ...testing.log_audit.log_builder import Log
from .found import findings, kinds, proof


def test_sent_again_after_the_answer() -> None:
    """Once for each session, with all sendings. Without an answer between them it is a right repetition."""
    log = Log()
    log.subscriber()
    mid = log.whole()
    assert kinds(log) == []
    for _ in range(2):
        log.send(mid, dup=True)
    (found,) = findings(log)
    assert (found.anomaly, found.severity) == ("A4", "info") and proof(found, log) == ["dlv.send"] * 3
    log.rows[:] = [row for row in log.rows if row["type"] != "dlv.ack"]
    assert "A4" not in [anomaly for anomaly, _ in kinds(log)]


def test_the_qos_of_rows_that_do_not_say_it() -> None:
    """It is what the subscription grants."""
    for granted in (1, 2):
        log = Log()
        log.subscriber(qos=granted)
        mid = log.whole(qos=2)
        log.send(mid, packet_id=99)
        for row in log.rows:
            if row["type"] == "dlv.send":
                del row["qos"]
        assert kinds(log) == [("A4", "sent again after its acknowledgement") if granted == 1 else ("A5", "sent twice")]


@pytest.mark.parametrize(("times", "wrong"), [(2, False), (3, True)])
def test_a_member_of_two_groups_gets_it_once_for_each(times: int, wrong: bool) -> None:
    log = Log()
    log.subscriber(filter="$share/g/t/#", qos=1)
    log.subscribe(filter="$share/h/t/+", qos=1)
    mid = log.accept()
    for each in ("$share/g/t/#", "$share/h/t/+"):
        log.say("q.enq", mid=mid, client="rx", group=each)
    log.ack(mid)
    for packet_id in range(1, 1 + times):
        log.send(mid, packet_id=packet_id)
        log.got(mid, packet_id=packet_id)
    assert kinds(log) == [("A4", "sent again after its acknowledgement")] * wrong

"""Logs that end at different times, and logs whose last rows are lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.judge.findings import Finding
from strogoff.judge.run import Report, judge

from ..testing.log_audit.log_builder import NODE, Log
from ..testing.log_audit.test_audit_cluster import A, B, Two

SLOT = slot_of("", "rx")


def open_log(rows: Iterable[Any]) -> Report:
    """The result for files of running nodes."""
    return judge(rows, complete=False)


def test_a_message_behind_the_end_of_a_log_is_open() -> None:
    """The node that has the session wrote no row after the acknowledgement yet."""
    two = Two()
    two.b.subscriber(expiry_s=60)
    two.lost()
    report = open_log(two.rows)
    assert (report.verdict, report.findings, report.open) == ("valid", [], 1)
    two.b.say("node.stats", connects=1, publishes=0, deliveries=0, drops={})
    report = open_log(two.rows)
    assert (report.verdict, [each.kind for each in report.findings], report.open) == ("invalid", ["stale-route"], 0)


def test_a_stopped_node_is_known_for_ever() -> None:
    two = Two()
    two.b.subscriber(expiry_s=60)
    two.b.say("node.stop")
    two.lost()
    assert open_log(two.rows).verdict == "invalid"


def dies(two: Two) -> None:
    two.b.say("fault.kill", nodes=[B])
    two.b.boot()


def gives_the_slot_away(two: Two) -> None:
    two.b.say("slot.taken", slot=SLOT, target="c")


@pytest.mark.parametrize("event", [dies, gives_the_slot_away])
def test_a_session_that_may_be_anywhere_needs_all_logs(event: Callable[[Two], None]) -> None:
    """The row that says where it is may be behind the end of another node's log."""
    two = Two()
    third = Log("c")
    third._events._now_ms = lambda: next(two.a._now)
    two.b.subscriber(expiry_s=60)
    third.say("mem.up", target=A)
    event(two)
    two.lost()
    two.b.say("mem.up", target=A)
    rows = two.rows + third.rows
    assert (open_log(rows).findings, open_log(rows).open) == ([], 1)
    third.say("mem.up", target=B)
    assert open_log(two.rows + third.rows).verdict == "invalid"


def test_a_group_needs_the_logs_of_all_members() -> None:
    two = Two()
    two.a.subscriber("one", "$share/g/t/#", expiry_s=60)
    two.b.subscriber("two", "$share/g/t/#", expiry_s=60)
    two.lost()
    assert (open_log(two.rows).findings, open_log(two.rows).open) == ([], 1)
    two.b.say("mem.up", target=A)
    assert open_log(two.rows).verdict == "invalid"


def test_who_published_may_be_behind_the_end_of_a_log() -> None:
    two = Two()
    two.b.subscriber()
    two.b.send((A, 1, 9))
    assert open_log(two.rows).findings == []
    two.a.say("mem.up", target=B)
    assert [each.kind for each in open_log(two.rows).findings] == ["never accepted"]


def test_a_subscription_may_be_behind_the_end_of_the_former_node() -> None:
    """The session moved; the log of its first node ends before that."""
    two = Two()
    two.b.subscriber(filter="other", expiry_s=60)
    two.a.say("slot.arrive", slot=SLOT)
    mid = two.a.accept()
    two.a.ack(mid)
    two.a.send(mid)
    assert open_log(two.rows).findings == []
    two.b.say("mem.up", target=A)
    assert [each.kind for each in open_log(two.rows).findings] == ["no subscription"]


def test_a_will_may_be_published_behind_the_end_of_a_log() -> None:
    log = Log()
    log.connect("mortal", will=True)
    log.say("conn.close", client="mortal", reason="closed")
    assert open_log(log.rows).findings == []
    log.pass_s(13)
    assert [each.kind for each in open_log(log.rows).findings] == ["lost"]


def crashed(log: Log, lost: bool) -> None:
    """The next boot knows the last number that this one used, and perhaps that a loss of power took later rows."""
    last = log.rows[-1]["seq"]
    log.boot()
    log.rows[-1] |= {"known_seq": last, "tail_lost": lost}


def waiting(log: Log, durable: bool = True) -> None:
    mid = log.accept()
    log.route(mid, "rx", durable=durable)
    log.ack(mid)


def of_a_kill(log: Log, lost: bool) -> None:
    """A1 queue: the row that the entry was safe may be lost."""
    waiting(log, durable=False)
    crashed(log, lost)


def of_a_newer_message(log: Log, lost: bool) -> None:
    """A1 overtaken: the older one may have been sent and answered."""
    waiting(log)
    newer = log.accept()
    crashed(log, lost)
    log.connect("rx", present=True)
    log.route(newer, "rx")
    log.send(newer)


def of_a_depth(log: Log, lost: bool) -> None:
    """A1 gone: it may have been answered."""
    waiting(log)
    crashed(log, lost)
    log.say("q.depth", client="rx", count=0)


def of_a_session(log: Log, lost: bool) -> None:
    """A12: it may have ended."""
    crashed(log, lost)
    log.connect("rx")


def of_a_will(log: Log, lost: bool) -> None:
    """A14: it may have been published."""
    log.connect("mortal", will=True)
    crashed(log, lost)
    log.pass_s(13)


def of_a_subscription(log: Log, lost: bool) -> None:
    """A3: it may have subscribed."""
    crashed(log, lost)
    log.send(log.accept(topic="elsewhere"))


def of_a_publish(log: Log, lost: bool) -> None:
    """A3: it may have been accepted."""
    crashed(log, lost)
    log.send((NODE, 1, 99))


CASES = [of_a_kill, of_a_newer_message, of_a_depth, of_a_session, of_a_will, of_a_subscription, of_a_publish]


@pytest.mark.parametrize("case", CASES)
def test_a_finding_that_rests_on_lost_rows_is_unknown(case: Callable[[Log, int], None]) -> None:
    def result(lost: bool) -> tuple[str, list[Finding]]:
        log = Log()
        log.subscriber(expiry_s=60)
        case(log, lost)
        report = judge(log.rows)
        return report.verdict, [each for each in report.findings if each.anomaly not in ("A0", "A9")]

    verdict, (sure,) = result(False)
    assert (verdict, sure.sure) == ("invalid", True)
    verdict, (unsure,) = result(True)
    assert (verdict, unsure.sure, unsure.id) == ("unknown", False, sure.id)


def test_rows_that_are_lost_before_or_after_change_nothing() -> None:
    log = Log()
    log.subscriber(expiry_s=60)
    crashed(log, True)
    mid = log.accept()
    log.route(mid)
    log.ack(mid)
    crashed(log, True)
    report = judge(log.rows)
    assert [(each.anomaly, each.kind, each.sure) for each in report.findings] == [
        ("A0", "tail", True),
        ("A0", "tail", True),
        ("A1", "stale-route", True),
    ]
    assert report.verdict == "invalid"
    assert [each.subject.detail for each in report.findings[:2]] == ["boot 1, row 6", "boot 2, row 5"]

"""A whole run in memory."""

from __future__ import annotations

import random

from strogoff.judge.run import Grouped, judge

from ..testing.log_audit.log_builder import NODE, Log


def test_findings_do_not_depend_on_the_order_of_rows() -> None:
    """Nor do their ids."""
    log = Log()
    log.subscriber()
    for _ in range(5):
        mid = log.accept()
        log.route(mid)
        log.ack(mid)
        log.send(log.whole(), dup=True)
    rows = list(log.rows)
    random.Random(5).shuffle(rows)
    first, second = judge(log.rows), judge(rows)
    assert first == second and len(first.findings) == 10
    assert len({each.id for each in first.findings}) == 10


def test_what_was_safe_of_a_will() -> None:
    """The world knows it without the rows of messages."""
    log = Log()
    for counter in (50, 51):
        log.say("will.fire", client="tx", topic="will", mid=(NODE, 1, counter))
    log.say("q.durable", mid=(NODE, 1, 50), client="rx")
    assert Grouped(log.rows).world().safe_wills == {(NODE, 1, 50)}


def test_only_the_first_safe_message_of_a_session_is_needed() -> None:
    log = Log()
    log.subscriber()
    for _ in range(5):
        log.whole()
    grouped = Grouped(reversed(log.rows))
    assert [row["mid"] for row in grouped._stored.values()] == [(NODE, 1, 1)]
    assert all(row["type"] != "q.durable" for row in grouped.others)

"""A whole run in memory."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

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


def flapping(times: int) -> Log:
    """A node loses its lease and gets another one, again and again. Then as many messages come."""
    log = Log()
    log.subscriber(expiry_s=3600)
    for view in range(times):
        log.say("lease.get", view=view)
        log.say("lease.lose", view=view)
    log.say("lease.get", view=times)
    for _ in range(times):
        mid = log.accept()
        log.route(mid, "rx")
        log.say("pub.ack", mid=mid, client="tx", right="lease")
    return log


def crashing(times: int) -> Log:
    """A node dies again and again, with a client that has a will."""
    log = Log()
    for _ in range(times):
        log.connect("rx", will=True)
        log.boot()
    return log


@pytest.mark.parametrize("of", [flapping, crashing])
def test_the_cost_is_linear(of: Callable[[int], Log]) -> None:
    """Twice as many rows need about twice as many lines of Python, those of each step of a generator included."""
    ran = []
    for times in (600, 1200):
        rows, count = of(times).rows, 0

        def line(_frame: object, _event: str, _argument: object) -> Callable[..., Any]:
            nonlocal count
            count += 1
            return line

        before = sys.gettrace()
        sys.settrace(line)
        try:
            judge(rows)
        finally:
            sys.settrace(before)
        ran.append(count)
    assert ran[1] < 2.3 * ran[0]

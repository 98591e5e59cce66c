"""A14: wills. More cases are in tests/testing/log_audit."""

from __future__ import annotations

from ...testing.log_audit.log_builder import NODE, Log
from .found import findings, kinds, proof


def test_a_will_that_is_lost_twice_is_two_findings() -> None:
    """Each names the row of the will and the row that made it due."""
    log = Log()
    for _ in range(2):
        log.connect("tx", will=True)
        log.say("conn.close", client="tx", reason="peer_closed")
        log.say("sess.end", client="tx", reason="disconnected")
    found = findings(log)
    assert [each.kind for each in found] == ["lost", "lost"] and found[0].id != found[1].id
    assert proof(found[0], log) == ["will.arm", "sess.end"]


def test_a_will_that_fires_again_after_a_connection_without_one() -> None:
    log = Log()
    log.connect("tx", will=True)
    log.say("will.fire", client="tx", topic="will", mid=(NODE, 1, 50))
    log.connect("tx", present=True)
    log.say("will.fire", client="tx", topic="will", mid=(NODE, 1, 51))
    assert kinds(log) == [("A14", "dup")]


def test_a_log_that_begins_later_may_lack_the_will() -> None:
    log = Log()
    log.boot()
    log.say("will.fire", client="tx", topic="will", mid=(NODE, 2, 50))
    log.rows[:] = [row for row in log.rows if row["boot"] > 1]
    assert kinds(log) == []

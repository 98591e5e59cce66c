"""A14: wills. More cases are in tests/testing/log_audit."""

from __future__ import annotations

from strogoff.judge.run import judge

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


def test_a_kill_before_connack_may_take_the_will() -> None:
    """It was perhaps not on the disk. A connection with a CONNACK has its will safe."""
    for answered in (False, True):
        log = Log()
        if answered:
            log.connect("tx", will=True, expiry_s=60)
        else:
            log.say("will.arm", client="tx", topic="will")
        log.boot()
        log.connect("tx", present=answered, will=True)
        assert kinds(log) == ([("A14", "lost")] if answered else [])


def test_a_will_without_connack_is_published_as_every_other() -> None:
    """It is no will without a connection, and its node must publish or drop it."""
    log = Log()
    log.say("will.arm", client="tx", topic="will")
    log.say("will.fire", client="tx", topic="will", mid=(NODE, 1, 50))
    log.say("will.arm", client="tx", topic="will")
    assert kinds(log) == []
    log.connect("tx", will=True)
    assert kinds(log) == [("A14", "lost")]


def test_older_logs_have_the_will_behind_its_connection() -> None:
    """There a kill in between does not excuse the will: its client had the CONNACK."""
    log = Log()
    for _ in range(2):
        log.connect("tx")
        log.say("will.arm", client="tx", topic="will")
        log.boot()
    rows = [{**row, "v": 6} for row in log.rows]
    assert [(each.anomaly, each.kind) for each in judge(rows).findings] == [("A14", "lost")]

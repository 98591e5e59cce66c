"""A0: missing rows."""

from __future__ import annotations

import random

from strogoff.judge.run import judge

from ...testing.log_audit.log_builder import Log
from .found import findings, kinds


def log_with_rows() -> Log:
    log = Log()
    log.subscriber()
    log.whole()
    return log


def test_a_hole_and_what_the_node_dropped() -> None:
    log = log_with_rows()
    log.say("log.gap", first=90, last=99, rows=10, reason="overflow")
    del log.rows[4]
    gap, given_up = findings(log)
    assert (gap.kind, gap.subject.detail) == ("gap", "boot 1, row 5") and "rows 5 to 5 are missing" in gap.text
    assert (given_up.kind, given_up.subject.detail) == ("given-up", "boot 1, row 90")


def test_rows_in_any_order_and_twice_are_no_hole() -> None:
    """Files are read in any order, and perhaps twice."""
    log = log_with_rows()
    log.rows += log.rows[:5]
    random.Random(2).shuffle(log.rows)
    assert "A0" not in [anomaly for anomaly, _ in kinds(log)]


def test_two_processes_with_the_number_of_one_boot() -> None:
    """A backup of the disk is restored, and the log has both lives of it."""
    log = log_with_rows()
    restored = Log()
    restored.pass_s(3600)
    log.rows += restored.rows
    (found,) = [each for each in judge(log.rows).findings if each.anomaly == "A0"]
    assert (found.kind, found.subject.detail) == ("twice", "boot 1, row 2")
    assert judge(log.rows).verdict == "unknown"


def test_deleted_days_are_no_hole() -> None:
    """Only the first boot of a node can begin later: a later one would begin with its first row."""
    log = log_with_rows()
    log.boot()
    log.say("node.stop")
    first = [row for row in log.rows if row["boot"] > 1 or row["seq"] > 3]
    log.rows[:] = first
    assert ("A0", "deleted") in kinds(log) and ("A0", "gap") not in kinds(log)
    log.rows[:] = [row for row in first if row["boot"] == 1 or row["seq"] > 1]
    assert ("A0", "gap") in kinds(log)


def test_rows_of_another_run_are_no_hole() -> None:
    """A node that joins goes on with the next number; what it wrote before is of its own run."""
    log = log_with_rows()
    log.boot()
    log.say("node.stop", reason="joined")
    log.say("node.join", old="own")
    log.rows[:] = [row for row in log.rows if row["boot"] == 1 or row["type"] == "node.join"]
    assert kinds(log) == []

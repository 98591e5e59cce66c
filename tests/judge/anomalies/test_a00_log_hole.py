"""A0: missing rows."""

from __future__ import annotations

import random

import pytest

from strogoff.judge.anomalies import a00_log_hole
from strogoff.judge.anomalies.a00_log_hole import Stretch
from strogoff.judge.rows import row_id
from strogoff.judge.run import Grouped, judge

from ...testing.log_audit.log_builder import Log, two_nodes
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


def test_a_start_that_knows_more_than_the_log() -> None:
    """The end of a boot is missing, or the boot behind it. Both rows prove it."""
    log = log_with_rows()
    end = log.rows[-1]
    log.boot()
    log.rows[-1] |= {"known_seq": end["seq"], "tail_lost": False}
    assert kinds(log) == []
    log.rows[-1]["known_seq"] += 5
    (gap,) = findings(log)
    assert (gap.kind, gap.severity, gap.subject.detail) == ("gap", "fatal", f"boot 1, row {end['seq'] + 1}")
    assert f"boot 2 says that the boot before it ended with row {end['seq'] + 5}" in gap.text
    assert gap.rows == (row_id(end), row_id(log.rows[-1])) and judge(log.rows).verdict == "unknown"


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


def test_without_the_log_of_a_member_nothing_is_known() -> None:
    """Its rows may say why a message reached nobody else."""
    first, second = two_nodes()
    for log in (first, second):
        for node in (first, second):
            log.say("mem.up", target=node.node, view=1)
    assert "A0" not in [each.anomaly for each in judge([*first.rows, *second.rows]).findings]
    report = judge(first.rows)
    (found,) = [each for each in report.findings if each.anomaly == "A0"]
    assert (found.kind, found.subject.node, report.verdict) == ("absent", second.node, "unknown")
    assert found.at == first.rows[-1]["hlc"]


def test_a_view_may_name_a_member_before_all_others_do() -> None:
    first, second = two_nodes()
    first.say("mem.view", view=1, nodes=[first.node, "third"], joining=[], missing=[])
    second.say("mem.up", target="third", view=2)
    (found,) = [each for each in judge([*first.rows, *second.rows]).findings if each.anomaly == "A0"]
    assert (found.subject.node, found.at) == ("third", first.rows[-1]["hlc"])


def test_rows_of_another_run_are_no_hole() -> None:
    """A node that joins goes on with the next number; what it wrote before is of its own run."""
    log = log_with_rows()
    log.boot()
    log.say("node.stop", reason="joined")
    log.say("node.join", old="own")
    log.rows[:] = [row for row in log.rows if row["boot"] == 1 or row["type"] == "node.join"]
    assert kinds(log) == []


@pytest.mark.parametrize(
    ("hours", "others", "found"), [(8760, 0, True), (23, 0, False), (72, 72, False), (72, 24, True)]
)
def test_a_clock_that_jumps_to_a_time_that_no_other_node_has(hours: int, others: int, found: bool) -> None:
    """A machine that stood still for days has the time of the others afterwards. They ignore a stamp a day ahead."""
    first, second = two_nodes()
    for log, passed in ((first, hours), (second, others)):
        log.say("lease.get", view=1)
        log.pass_s(passed * 3600)
    report = judge([*first.rows, *second.rows])
    clocks = [each for each in report.findings if each.anomaly == "A0"]
    assert [each.kind for each in clocks] == ["clock"] * found
    assert (report.verdict == "unknown") is found
    if found:
        assert f"its clock jumped ahead by {hours // 24} days" in clocks[0].text
        assert clocks[0].rows == (row_id(first.rows[-1]),)


def test_a_clock_that_jumps_within_a_stretch_of_rows_is_found() -> None:
    """The rows between the two ends of a stretch are not read one by one."""
    first, second = two_nodes()
    first.pass_s(72 * 3600)
    world = Grouped([*first.rows, *second.rows]).world()
    (found,) = a00_log_hole.judge([Stretch(first.rows[0], first.rows[-1])], world)
    assert found.kind == "clock"


def test_a_node_alone_has_its_own_time() -> None:
    log = log_with_rows()
    log.pass_s(72 * 3600)
    assert "A0" not in [anomaly for anomaly, _ in kinds(log)]

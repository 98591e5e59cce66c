"""The log of a node: lines written at once, and lines that are only counted."""

from __future__ import annotations

from typing import Any

from strogoff.broker.reporting.journal import ADMIN_COMMAND, BURST, NAMES, PLAIN, Journal
from strogoff.broker.reporting.log_line import Line

HEADER: dict[str, Any] = {"v": 2, "run_id": "r", "node": "n1", "boot": 1, "seq": 1, "hlc": 0, "mono_ns": 0}


class Paper:
    def __init__(self, debug: bool = False) -> None:
        self.lines: list[tuple[str, str]] = []
        self.journal = Journal(lambda level, line: self.lines.append((level, line)), debug)

    def event(self, type_: str, **fields: Any) -> None:
        self.journal.event({**HEADER, "type": type_, **fields})

    def take(self) -> list[tuple[str, str]]:
        lines, self.lines = self.lines, []
        return lines


def test_plain_lines_and_lines_with_fields_are_passed_on() -> None:
    paper = Paper()
    paper.journal("notice", "stopping")
    paper.journal("info", Line("conn.keepalive", "silent", client_id="c"))
    assert paper.take() == [("notice", "stopping"), ("info", "silent client_id=c")]
    paper.journal.flush()
    assert paper.take() == []


def test_events_are_lines_and_unknown_ones_are_not() -> None:
    paper = Paper()
    paper.event("lease.get", view=4)
    paper.event("pub.recv", mid=["n1", 1, 1], client="c", topic="t", qos=0)
    ((level, line),) = paper.take()
    assert level == "notice" and isinstance(line, Line) and line.fields == {"view": 4}


def test_debug_lines_are_optional_and_unlimited() -> None:
    quiet, chatty = Paper(), Paper(debug=True)
    for paper in (quiet, chatty):
        for _ in range(3 * BURST):
            paper.event("conn.close", client="c", reason="disconnect")
        paper.journal("debug", "a detail")
        paper.journal.flush()
    assert quiet.take() == []
    assert len(chatty.take()) == 3 * BURST + 1


def test_a_client_that_is_refused_in_a_loop_writes_a_bounded_number_of_lines() -> None:
    paper = Paper()
    for _ in range(1000):
        paper.event("policy.deny", client="noisy", operation="publish", topic="t", username="u", peer="1.2.3.4:5")
    paper.event("policy.deny", client="other", operation="publish", topic="t", reason="netsplit")
    paper.event("sess.takeover.start", client="c")  # another kind is not touched
    assert len(paper.take()) == BURST + 1
    paper.journal.flush()
    ((level, line),) = paper.take()
    assert level == "warning" and isinstance(line, Line) and line.event == "policy.deny"
    assert line.fields == {
        "count": 1001 - BURST,
        "client_id": [f"noisy ({1000 - BURST})", "other (1)"],
        "user": [f"u ({1000 - BURST})"],
        "peer": [f"1.2.3.4:5 ({1000 - BURST})"],
        "reason": ["netsplit (1)"],
    }
    paper.event("policy.deny", client="noisy", operation="publish", topic="t")
    assert len(paper.take()) == 1  # from here on one by one again


def test_the_names_in_a_summary_are_bounded() -> None:
    paper = Paper()
    for number in range(10_000):
        paper.event("conn.refuse", client=f"c{number}", peer="p", version=4, code=5, reason="no")
    paper.journal.flush()
    line = paper.take()[-1][1]
    assert isinstance(line, Line)
    assert line.fields["count"] == 10_000 - BURST and len(line.fields["client_id"]) == NAMES


def test_no_command_of_an_administrator_is_left_out() -> None:
    paper = Paper()
    for number in range(PLAIN + BURST + 1):
        paper.journal("info", Line(ADMIN_COMMAND, f"vmq-admin session disconnect client-id=c{number}"))
    assert len(paper.take()) == PLAIN + BURST + 1
    paper.journal.flush()
    assert paper.take() == []


def test_lines_without_a_kind_are_limited_by_level() -> None:
    paper = Paper()
    for number in range(PLAIN + 7):
        paper.journal("info", f"connection {number}")
    for _ in range(BURST + 3):
        paper.journal("info", Line("tls.fail", "handshake failed", peer="p"))
    paper.journal("error", "the disk is full")
    assert len(paper.take()) == PLAIN + BURST + 1
    paper.journal.flush()
    assert paper.take() == [("info", "7 more of these count=7"), ("info", '3 more of these count=3 peer="p (3)"')]

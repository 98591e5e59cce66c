"""Which findings and rows are shown, and how."""

from __future__ import annotations

from strogoff.analytics.report.proofs import FINDINGS, ROWS, TEXT, evidence_of, first_of_each_kind, shown
from strogoff.judge.findings import Finding, Subject


def test_the_first_findings_of_each_kind_are_shown() -> None:
    found = [Finding("A1", kind, "fatal", Subject(str(at)), at, "t") for at in range(FINDINGS + 3) for kind in "ab"]
    chosen = [*first_of_each_kind(found)]
    assert chosen == found[: 2 * FINDINGS]


def test_a_finding_has_its_first_rows_that_the_log_has() -> None:
    rows = tuple(("n", 1, seq) for seq in range(ROWS + 2))
    row = {"node": "n", "boot": 1, "hlc": 5 << 16, "type": "node.stop"}
    known = {name: evidence_of({**row, "seq": name[2]}) for name in rows if name[2] != 1}
    found = shown(Finding("A1", "k", "fatal", Subject(), 0, "t", rows), known)
    assert [each.row[2] for each in found.rows] == [0, *range(2, ROWS)]


def test_a_row_is_text_in_the_order_of_the_schema() -> None:
    row = {
        "node": "n",
        "boot": 2,
        "seq": 3,
        "hlc": 7 << 16,
        "type": "pub.route",
        "targets": ["a", "b"],
        "mid": "n/2/1",
        "group": None,
        "topic": "of another type",
        "file": "f",
        "line": 9,
    }
    made = evidence_of(row)
    assert (made.row, made.at_ms, made.type, made.file, made.line) == (("n", 2, 3), 7, "pub.route", "f", 9)
    assert made.text == "mid=n/2/1 targets=a,b"


def test_values_of_all_types() -> None:
    row = {"node": "n", "boot": 1, "seq": 1, "hlc": 0}
    stats = {"type": "node.stats", "connects": 1, "publishes": 0, "deliveries": 2, "drops": {"a": 1, "b": 2}}
    assert evidence_of(row | stats).text == "connects=1 publishes=0 deliveries=2 drops=a=1,b=2"
    assert "dup=true" in evidence_of(row | {"type": "dlv.send", "dup": True}).text


def test_a_type_of_another_version_has_all_its_fields() -> None:
    row = {"node": "n", "boot": 1, "seq": 1, "hlc": 0, "type": "of.later", "client": "c", "reason": "r"}
    assert evidence_of(row).text == "client=c reason=r"


def test_a_long_row_is_cut() -> None:
    row = {"node": "n", "boot": 1, "seq": 1, "hlc": 0, "type": "node.stop", "reason": "x" * 1000}
    text = evidence_of(row).text
    assert len(text) == TEXT + 1 and text.endswith("x…")

"""Results as text, CSV and JSON."""

from __future__ import annotations

import csv
import json

from strogoff.analytics.output import as_csv, as_json, as_text, time_text

COLUMNS = ["run_id", "node", "drops", "why"]
RECORDS = [
    {"run_id": "r", "node": "n1", "drops": 5, "why": {"expired": 2, "queue_full": 3}},
    {"run_id": "r", "node": "node-2", "drops": 1200, "why": {}},
]


def test_text_is_aligned_and_numbers_stand_right() -> None:
    assert as_text(COLUMNS, RECORDS) == (
        "node    drops  why\n"
        "n1          5  queue_full=3 expired=2\n"
        "node-2   1200  -\n"
    )  # fmt: skip


def test_the_run_is_shown_if_there_are_several() -> None:
    other = {**RECORDS[0], "run_id": "s"}
    assert as_text(["run_id", "node"], [RECORDS[0], other]) == "run_id  node\nr       n1\ns       n1\n"


def test_an_empty_table_is_its_header() -> None:
    assert as_text(["node", "drops"], []) == "node  drops\n"


def test_lists_truths_and_missing_numbers() -> None:
    """A column of numbers stands right, also if one is missing; one of truths does not."""
    records = [{"nodes": ["n1", "n\n2"], "ok": True, "ms": None}, {"nodes": [], "ok": False, "ms": 5}]
    assert as_text(["nodes", "ok", "ms"], records) == "nodes   ok   ms\nn1 n?2  yes   -\n-       no    5\n"


def test_unprintable_text_does_not_break_the_table() -> None:
    assert as_text(["line"], [{"line": "a\x00b\nc\x1b[31m"}, {"line": None}]) == "line\na?b?c?[31m\n-\n"


def test_csv_can_be_read_back() -> None:
    text = as_csv(COLUMNS, [*RECORDS, {"run_id": "r", "node": 'a,"b"', "drops": 0, "why": {}}])
    lines = list(csv.reader(text.splitlines()))
    assert lines[0] == COLUMNS
    assert lines[1:] == [
        ["r", "n1", "5", "queue_full=3 expired=2"],
        ["r", "node-2", "1200", "-"],
        ["r", 'a,"b"', "0", "-"],
    ]


def test_json_keeps_numbers_and_maps() -> None:
    assert json.loads(as_json({"hours": RECORDS, "boots": []})) == {"hours": RECORDS, "boots": []}


def test_times_are_utc_with_milliseconds() -> None:
    assert time_text(1_772_366_400_007) == "2026-03-01T12:00:00.007Z"

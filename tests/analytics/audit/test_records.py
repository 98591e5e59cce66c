"""Values of the judges as columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from strogoff.analytics.audit.records import arrow_type, column, names, sql_type, values
from strogoff.judge.anomalies.a16_retained_stale import Retained
from strogoff.judge.findings import Finding, Subject
from strogoff.judge.lanes import Entry
from strogoff.judge.rows import NEVER

ROW = ("n1", 2, 3)
ENTRY = Entry((("n1", "", "rx"), 1), ("n1", 1, "tx", 3, "t/ü", 1), ROW, 5, -1, resumed=NEVER, rows=(ROW, ROW))
FINDING = Finding("A1", "queue", "fatal", Subject("n1", "m", "c", 1, ROW, "t", "d"), 9, "text", (ROW,), False, 4)
RETAINED = Retained("", "t", ROW, 7, 8, ROW, (("n1", "", "rx"), 9))


@pytest.mark.parametrize(
    ("hint", "given"),
    [
        (Entry, [ENTRY, Entry((("n2", "", ""), 0), ("n", 1, "", 0, "", 0), ROW, 0, 0)]),
        (Finding, [FINDING, Finding("A20", "majority", "metric", Subject(), 0, "")]),
        (Retained, [RETAINED, Retained("", "t", ROW, 7, 8, ROW)]),
        (Entry | None, [None, ENTRY, None]),
        (tuple[tuple[str, int], bool] | None, [(("a", 1), True), None]),
        (tuple[str, ...], [(), ("a", "b"), ("c",)]),
    ],
)
def test_what_goes_into_a_column_comes_back(hint: Any, given: list[Any]) -> None:
    made = column(given, hint)
    assert made.type == arrow_type(hint)
    assert values(made, hint) == given
    assert values(made[1:], hint) == given[1:]


def test_types_in_the_words_of_spark() -> None:
    assert sql_type(arrow_type(tuple[str, bool])) == "struct<_1: string, _2: boolean>"
    assert sql_type(arrow_type(tuple[tuple[int, str], ...])) == "array<struct<_1: bigint, _2: string>>"
    assert [each.name for each in arrow_type(Finding)] == list(names(Finding))


def test_an_empty_column() -> None:
    assert values(column([], Entry), Entry) == []
    assert values(pa.nulls(2, arrow_type(Finding)), Finding | None) == [None, None]

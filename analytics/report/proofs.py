"""Which findings the page shows with their text, and their rows as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ...judge.findings import Finding
from ...judge.rows import RowId, ms_of
from .. import schema
from .report_data import Evidence, Shown

FINDINGS: Final = 25
"""Most findings of one anomaly and kind."""
ROWS: Final = 8
"""Most rows of one finding."""
TEXT: Final = 400
"""Most characters of a row."""


def first_of_each_kind(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Returns the first `FINDINGS` of each anomaly and kind, in the order in which they come."""
    seen: Counter[tuple[str, str]] = Counter()
    for each in findings:
        seen[each.anomaly, each.kind] += 1
        if seen[each.anomaly, each.kind] <= FINDINGS:
            yield each


def shown(finding: Finding, rows: Mapping[RowId, Evidence]) -> Shown:
    """Returns a finding with the first `ROWS` of its rows, of those that the log has."""
    return Shown(finding, tuple(rows[name] for name in finding.rows[:ROWS] if name in rows))


def evidence_of(row: Mapping[str, Any]) -> Evidence:
    """Returns a row of the table `events`, or of a log in memory, as the page shows it."""
    name: RowId = (row["node"], row["boot"], row["seq"])
    return Evidence(name, ms_of(row["hlc"]), row["type"], _text(row), row.get("file") or "", row.get("line") or 0)


def _text(row: Mapping[str, Any]) -> str:
    known = schema.TYPES.get(row["type"])  # tables of an earlier version may have other types
    names = schema.FIELDS if known is None else (*known.required, *known.optional)
    given = ((name, row.get(name)) for name in names)
    text = " ".join(f"{name}={_value(value)}" for name, value in given if value is not None)
    return text if len(text) <= TEXT else f"{text[:TEXT]}…"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{key}={number}" for key, number in value.items())
    return str(value)

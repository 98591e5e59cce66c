"""Formats of results: aligned text, JSON and CSV. It does not use Spark."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

Records = Sequence[Mapping[str, Any]]
"""Rows of a result, all with the same columns."""


def as_text(columns: Sequence[str], records: Records) -> str:
    """An aligned table with a header line; numbers to the right. A `run_id` that all rows share is left out."""
    if len({record.get("run_id") for record in records}) < 2:
        columns = [name for name in columns if name != "run_id"]
    cells = [[_text(record[name]) for name in columns] for record in records]
    right = [_numeric([record[name] for record in records]) for name in columns]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    lines = []
    for line in [list(columns), *cells]:
        padded = [
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(line, widths, right, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines) + "\n"


def as_csv(columns: Sequence[str], records: Records) -> str:
    """Comma-separated values with a header line (RFC 4180)."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    writer.writerows([[_text(record[name]) for name in columns] for record in records])
    return buffer.getvalue()


def as_json(tables: Mapping[str, Records]) -> str:
    """One object with an array of objects for each table."""
    return json.dumps(tables, indent=2, ensure_ascii=False) + "\n"


def time_text(ms: int) -> str:
    """A time in milliseconds since 1970, in UTC, such as `2026-03-01T12:00:00.250Z`."""
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def _numeric(values: Sequence[object]) -> bool:
    """Whether a column has numbers, and nothing else but missing ones."""
    kinds = {type(value) for value in values if value is not None}
    return bool(kinds) and kinds <= {int, float}


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        most_first = sorted(value.items(), key=lambda each: (-each[1], each[0]))
        return " ".join(f"{key}={count}" for key, count in most_first) or "-"
    if isinstance(value, (list, tuple)):
        return " ".join(map(_text, value)) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable("-" if value is None else str(value))


def printable(text: str) -> str:
    """A text that keeps to its line, whatever a damaged log has in it."""
    return "".join(char if char.isprintable() else "?" for char in text)

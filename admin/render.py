"""Renders results in three formats: `human` (bordered tables), `json` (VerneMQ's status objects) and `csv`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any
from unicodedata import combining, east_asian_width

import msgspec

from .result import Alert, Cell, Part, Table, Text

FORMATS = ("human", "json", "csv")


def render(parts: Iterable[Part], form: str) -> str:
    """The result as text that ends with a newline, or the empty string. Only JSON contains the alerts; see `alerts`."""
    if form == "json":
        return msgspec.json.encode([as_object(part) for part in parts]).decode() + "\n"
    write = _csv if form == "csv" else _human
    return "".join(write(part) for part in parts if not isinstance(part, Alert))


def alerts(parts: Iterable[Part]) -> list[str]:
    """The texts of the alerts, with control characters escaped."""
    return [_lines(part.text).rstrip("\n") for part in parts if isinstance(part, Alert)]


def as_object(part: Part) -> dict[str, Any]:
    """A part as a status object of VerneMQ."""
    if isinstance(part, Table):
        return {"type": "table", "table": [dict(zip(part.columns, row, strict=True)) for row in part.rows]}
    if isinstance(part, Alert):
        return {"type": "alert", "alert": [{"type": "text", "text": part.text}]}
    return {"type": "text", "text": part.text}


def escape_unprintable(text: str) -> str:
    """The text with control characters escaped, because a client id must not control the terminal of an operator."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _cell(value: Cell) -> str:
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    return escape_unprintable(str(value))


def _lines(text: str) -> str:
    return "".join(escape_unprintable(line) + "\n" for line in text.split("\n"))


def _human(part: Table | Text) -> str:
    if isinstance(part, Text):
        return _lines(part.text)
    rows = [[_cell(value) for value in row] for row in part.rows]
    if part.line:
        return "".join(part.line.format(**dict(zip(part.columns, row, strict=True))) + "\n" for row in rows)
    if not rows:
        return ""
    widths = [max(map(_width, column)) for column in zip(part.columns, *rows, strict=True)]
    ruler = "+" + "+".join("-" * width for width in widths) + "+\n"
    lines = [_line(list(part.columns), widths), ruler, *(_line(row, widths) for row in rows)]
    return ruler + "".join(lines) + ruler


def _line(cells: list[str], widths: list[int]) -> str:
    return "|" + "|".join(_centred(cell, width) for cell, width in zip(cells, widths, strict=True)) + "|\n"


def _centred(text: str, width: int) -> str:
    spaces = width - _width(text)
    left = spaces // 2
    return " " * left + text + " " * (spaces - left)


def _width(text: str) -> int:
    """The columns of a terminal that the text takes: two for a wide letter, none for a mark on the letter before."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def _csv(part: Table | Text) -> str:
    if isinstance(part, Text):
        return _human(part)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(part.columns)
    for row in part.rows:
        writer.writerow(["" if value is None else _cell(value) for value in row])
    return out.getvalue()

"""Columns of `show` commands as flags: `--field` selects, `--field=VALUE` and `--field=~REGEX` select and filter."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .grammar import NO_EFFECT, Call, Flag, number
from .patterns import Pattern, PatternError
from .result import Alert, Cell, CommandError, Part, Table

Row = dict[str, Cell]
Test = Callable[[Cell], bool]

LIMITS = (
    Flag("limit", "most rows; default 100", value="N", convert=number),
    Flag("rowtimeout", NO_EFFECT, value="MS", convert=number),
)
"""The flags of a `show` command with columns that are no fields."""
_NOT_FIELDS = tuple(flag.name for flag in LIMITS)


def field_flags(fields: Iterable[str]) -> tuple[Flag, ...]:
    """A flag for each field."""
    return tuple(
        Flag(name, "show this column; with a value, only the rows with that value", value="VALUE|~REGEX", optional=True)
        for name in fields
    )


class Query:
    """The columns and filters of a command line. A row must pass all filters."""

    def __init__(self, call: Call, default: tuple[str, ...]) -> None:
        asked = [(name, value) for name, value in call.flags if name not in _NOT_FIELDS]
        self.columns = tuple(dict.fromkeys(name for name, _ in asked)) or default
        self.limit: int = call.flag("limit", 100)
        self._tests = [(name, _test(name, value)) for name, value in asked if value is not None]

    def wants(self, *fields: str) -> bool:
        """Whether one of these fields is a column of the result."""
        return any(name in self.columns for name in fields)

    def holds(self, row: Row) -> bool:
        """Whether the row passes all filters on the fields that it has."""
        return all(test(row[name]) for name, test in self._tests if name in row)

    def cells(self, row: Row) -> tuple[Cell, ...]:
        """The cells of a row, one for each column."""
        return tuple(row.get(name) for name in self.columns)

    def table(self, rows: list[tuple[Cell, ...]]) -> list[Part]:
        """The first rows, up to the limit, as a table, and a remark if there are more rows."""
        table = Table(self.columns, rows[: self.limit])
        if len(rows) <= self.limit:
            return [table]
        more = f"There are more rows than --limit={self.limit} shows: --limit={10 * self.limit} shows more."
        return [table, Alert(more)]


def _test(field: str, value: str) -> Test:
    if not value.startswith("~"):
        return lambda cell: _text(cell) == value
    try:
        pattern = Pattern(value[1:])
    except PatternError as error:
        raise CommandError(f"--{field}: {value[1:]!r} is no regular expression that is supported: {error}.") from None
    return lambda cell: pattern.search(_text(cell))


def _text(cell: Any) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return "undefined" if cell is None else str(cell)

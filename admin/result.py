"""What a command answers: texts, tables, alerts; the same for people, scripts and HTTP."""

from __future__ import annotations

import msgspec

Cell = str | int | float | bool | None
"""One value of a table; None is "there is none"."""


class Text(msgspec.Struct, frozen=True):
    """A line or several."""

    text: str


class Alert(msgspec.Struct, frozen=True):
    """What went wrong, in a sentence."""

    text: str


class Table(msgspec.Struct, frozen=True):
    """Rows under named columns. With `line`, a format string over the columns, people see a line for each row."""

    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    line: str = ""


Part = Text | Alert | Table

DONE = Text("Done")


class CommandError(Exception):
    """A command that cannot be carried out; the text is what the operator reads."""

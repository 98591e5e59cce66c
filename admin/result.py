"""The result of a command: texts, tables and alerts."""

from __future__ import annotations

import msgspec

Cell = str | int | float | bool | None
"""One value of a table; None is an absent value."""


class Text(msgspec.Struct, frozen=True):
    """One line or several."""

    text: str


class Alert(msgspec.Struct, frozen=True):
    """An error or a remark as a sentence. `incomplete`: rows are missing in the result because of an error."""

    text: str
    incomplete: bool = False


class Table(msgspec.Struct, frozen=True):
    """Rows with named columns. `line` is a format string over the columns that `human` prints for each row."""

    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    line: str = ""


Part = Text | Alert | Table

DONE = Text("Done")


def sentence(text: str) -> str:
    """The text with a mark at its end."""
    return text if text.endswith(("?", ".")) else f"{text}."


class CommandError(Exception):
    """The node refuses a command. The text is for the operator."""

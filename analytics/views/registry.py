"""The views by name. Command line, docs page and tests take names, help and columns from here.

A view is a module of this package. Its docstring has the first line `name: help.`, then text, and under `Columns:` a
line for each column of its table with the meaning. Its function `view` makes the table, in order, of `events`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAMES: Final = ("latency", "sessions", "storms", "queues", "topics", "drops", "netsplits", "exposure")
"""The names of all views."""

_COLUMNS = "\n\nColumns:\n"


@dataclass(frozen=True, slots=True)
class View:
    """A view: what it answers in one line, its text, the meaning of each column, and notes on the columns."""

    name: str
    help: str
    text: str
    columns: Mapping[str, str]
    notes: str

    def make(self, events: DataFrame) -> DataFrame:
        """The table, in the order in which people read it. Raises `SchemaError`; netsplits also `Trouble`."""
        module = import_module(f"{__package__}.{self.name}")
        table: DataFrame = module.view(events)
        return table


@cache
def view_of(name: str) -> View:
    """The view of this name, from the docstring of its module. It does not import Spark."""
    source = files(__package__ or "").joinpath(f"{name}.py").read_text(encoding="utf-8")  # perhaps in an archive
    return parse(name, ast.get_docstring(ast.parse(source)) or "")


def parse(name: str, docstring: str) -> View:
    """A view as its docstring says. Raises ValueError if the docstring has another form."""
    first, _, rest = docstring.partition("\n")
    named, colon, line = first.partition(": ")
    text, begin, behind = rest.partition(_COLUMNS)
    if not colon or named != name or not begin:
        raise ValueError(f"{name}: the docstring is not `{name}: help.`, text, and `Columns:`")
    block, _, notes = behind.partition("\n\n")
    columns: dict[str, str] = {}
    for each in block.splitlines():
        column, _, meaning = each.strip().partition(" ")
        columns[column] = meaning.strip()
    return View(name, line.rstrip("."), text.strip(), columns, notes.strip())

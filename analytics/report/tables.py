"""Tables of the page: with a caption and headers for those who hear it, and to be scrolled where they are wide."""

from __future__ import annotations

from collections.abc import Sequence

from .markup import Html, tag
from .words import number

Cell = str | int | Html


def table(caption: str, columns: Sequence[str], lines: Sequence[Sequence[Cell]], style: str = "") -> Html:
    """Returns a table. The first cell of each line is its header; numbers are to the right."""
    head = tag("tr", *(tag("th", each, scope="col") for each in columns))
    body = [tag("tr", _header(first), *map(_cell, rest)) for first, *rest in lines]
    made = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body))
    return tag("div", made, class_=f"wide {style}".strip(), role="region", aria_label=caption, tabindex=0)


def _header(cell: Cell) -> Html:
    return tag("th", number(cell) if isinstance(cell, int) else cell, scope="row")


def _cell(cell: Cell) -> Html:
    if isinstance(cell, int):
        return tag("td", number(cell), class_="number")
    return tag("td", cell)

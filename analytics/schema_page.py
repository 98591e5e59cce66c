"""Writes the tables of docs/eventlog.md: `python -m strogoff.analytics.schema_page docs/eventlog.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from .schema import FIELDS, HEADER, MESSAGE, TYPES, EventType, Field

BEGIN = "<!-- from analytics/schema.py: begin -->"
END = "<!-- from analytics/schema.py: end -->"


def tables() -> str:
    """Header, event types and fields as Markdown."""
    parts = [
        "### Every row has",
        _table(["field", "type", "unit", "meaning"], map(_field, HEADER)),
        "### Event types",
        "Fields in *italics* are optional. Types of level `message` are logged only with `eventlog.level = message`.",
        _table(["type", "level", "fields", "meaning"], map(_type, TYPES.values())),
        "### Fields",
        _table(["field", "type", "unit", "meaning"], map(_field, FIELDS.values())),
    ]
    return "\n\n".join(parts)


def renewed(page: str) -> str:
    """Returns the page with a new generated part. Raises ValueError if the marks are missing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no part between {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def main(argv: list[str]) -> int:
    """Rewrite the generated part of the page on the command line."""
    path = Path(argv[0])
    path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


def _table(head: list[str], lines: Iterable[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _field(field: Field) -> list[str]:
    return [f"`{field.name}`", field.kind, field.unit, field.meaning]


def _type(event: EventType) -> list[str]:
    level = "message" if event.level == MESSAGE else "session"
    fields = [*(f"`{name}`" for name in event.required), *(f"*{name}*" for name in event.optional)]
    return [f"`{event.name}`", level, " ".join(fields), event.meaning]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Renews the parts of pages that modules define: `python docs/definitions_page.py`; `--check` compares.

The docstring of a module of `judge/anomalies` is the definition of its anomaly (docs/anomalies.md), that of a module of
`analytics/views` the one of its view (docs/analytics.md). The text outside of the marks is written by hand.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from strogoff.analytics.views.registry import NAMES, View, view_of

DOCS = Path(__file__).parent
ANOMALIES = Path(__file__).resolve().parent.parent / "judge" / "anomalies"


class Part(NamedTuple):
    """A part of a page: what the marks around it name, and its sections."""

    source: str
    sections: Callable[[], Iterable[str]]

    @property
    def marks(self) -> tuple[str, str]:
        """Returns the lines before and behind the part."""
        return f"<!-- from {self.source}: begin -->", f"<!-- from {self.source}: end -->"


def definitions(folder: Path = ANOMALIES) -> Iterator[tuple[str, str]]:
    """Returns the path in the repository and the docstring of each anomaly's module, in the order of their numbers."""
    for path in sorted(folder.glob("a[0-9][0-9]_*.py")):
        yield f"judge/anomalies/{path.name}", ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def anomaly(path: str, docstring: str) -> str:
    """Returns the section about one anomaly. Raises ValueError for a docstring without its name."""
    first, _, rest = docstring.partition("\n")
    name, colon, sentence = first.partition(": ")
    number = name.partition(" ")[0]
    if not colon or number != f"A{int(Path(path).name[1:3])}":
        raise ValueError(f"{path}: the docstring does not begin with the number and the name of the anomaly")
    sentence = sentence[:1].upper() + sentence[1:]
    return "\n\n".join(each for each in (f"### {name}", sentence, rest.strip(), f"`{path}`") if each)


def view(of: View) -> str:
    """Returns the section about one view."""
    rows = [f"| `{name}` | {meaning} |" for name, meaning in of.columns.items()]
    table = "\n".join(["| column | meaning |", "|---|---|", *rows])
    help = of.help[:1].upper() + of.help[1:] + "."
    return "\n\n".join(each for each in (f"#### {of.name}", help, of.text, table, of.notes) if each)


PARTS = {
    "anomalies.md": Part("judge/anomalies", lambda: (anomaly(*each) for each in definitions())),
    "analytics.md": Part("analytics/views", lambda: (view(view_of(name)) for name in NAMES)),
}
"""Name of a page -> the part of it that modules define."""


def renewed(page: str, part: Part) -> str:
    """Returns the text of a page with a new part. Raises ValueError if the marks are missing."""
    begin, end = part.marks
    before, begun, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not begun or not ended:
        raise ValueError(f"the page has no part between {begin} and {end}")
    sections = "\n\n".join(part.sections())
    return f"{before}{begin}\n\n{sections}\n\n{end}{after}"


def main(argv: list[str]) -> int:
    """Rewrite the pages, or with `--check` compare them: status 1 if one is old."""
    old = 0
    for name, part in PARTS.items():
        page = DOCS / name
        text = page.read_text(encoding="utf-8")
        new = renewed(text, part)
        if "--check" not in argv:
            page.write_text(new, encoding="utf-8")
        elif new != text:
            print(f"{name} is old: run docs/definitions_page.py", file=sys.stderr)
            old = 1
    return old


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

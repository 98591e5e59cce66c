"""Renews docs/anomalies.md from the modules of `judge/anomalies`: `python docs/anomalies_page.py`; `--check` compares.

The docstring of a module is the definition of its anomaly. The text outside of the marks is written by hand.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parent / "anomalies.md"
MODULES = Path(__file__).resolve().parent.parent / "judge" / "anomalies"
BEGIN, END = "<!-- from judge/anomalies: begin -->", "<!-- from judge/anomalies: end -->"


def definitions(folder: Path = MODULES) -> Iterator[tuple[str, str]]:
    """Returns the path in the repository and the docstring of each anomaly's module, in the order of their numbers."""
    for path in sorted(folder.glob("a[0-9][0-9]_*.py")):
        yield f"judge/anomalies/{path.name}", ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def section(path: str, docstring: str) -> str:
    """Returns the part of the page for one anomaly. Raises ValueError for a docstring without its name."""
    first, _, rest = docstring.partition("\n")
    name, colon, sentence = first.partition(": ")
    number = name.partition(" ")[0]
    if not colon or number != f"A{int(Path(path).name[1:3])}":
        raise ValueError(f"{path}: the docstring does not begin with the number and the name of the anomaly")
    sentence = sentence[:1].upper() + sentence[1:]
    return "\n\n".join(each for each in (f"### {name}", sentence, rest.strip(), f"`{path}`") if each)


def renewed(page: str, folder: Path = MODULES) -> str:
    """Returns the page with new definitions. Raises ValueError if the marks are missing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no part between {BEGIN} and {END}")
    parts = "\n\n".join(section(*each) for each in definitions(folder))
    return f"{before}{BEGIN}\n\n{parts}\n\n{END}{after}"


def main(argv: list[str]) -> int:
    """Rewrite the page, or with `--check` compare it: status 1 if it is old."""
    page = PAGE.read_text(encoding="utf-8")
    new = renewed(page)
    if "--check" in argv:
        if new != page:
            print(f"{PAGE.name} is old: run docs/anomalies_page.py", file=sys.stderr)
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

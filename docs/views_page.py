"""Renews the views in docs/analytics.md from the modules of `analytics/views`: `python docs/views_page.py`; `--check`
compares.

The docstring of a view's module is its definition. The text outside of the marks is written by hand.
"""

from __future__ import annotations

import sys
from pathlib import Path

from strogoff.analytics.views.registry import NAMES, View, view_of

PAGE = Path(__file__).parent / "analytics.md"
BEGIN, END = "<!-- from analytics/views: begin -->", "<!-- from analytics/views: end -->"


def section(view: View) -> str:
    """Returns the part of the page for one view."""
    rows = [f"| `{name}` | {meaning} |" for name, meaning in view.columns.items()]
    table = "\n".join(["| column | meaning |", "|---|---|", *rows])
    help = view.help[:1].upper() + view.help[1:] + "."
    return "\n\n".join(each for each in (f"#### {view.name}", help, view.text, table, view.notes) if each)


def renewed(page: str) -> str:
    """Returns the page with new views. Raises ValueError if the marks are missing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no part between {BEGIN} and {END}")
    parts = "\n\n".join(section(view_of(name)) for name in NAMES)
    return f"{before}{BEGIN}\n\n{parts}\n\n{END}{after}"


def main(argv: list[str]) -> int:
    """Rewrite the page, or with `--check` compare it: status 1 if it is old."""
    page = PAGE.read_text(encoding="utf-8")
    new = renewed(page)
    if "--check" in argv:
        if new != page:
            print(f"{PAGE.name} is old: run docs/views_page.py", file=sys.stderr)
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

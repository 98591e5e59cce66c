"""Makes the table of mutants in docs/simulation.md, between its two marks."""

from __future__ import annotations

import re
from pathlib import Path

from .catalogue import ListError, Mutant
from .trial import Verdict

PAGE = Path(__file__).resolve().parent.parent / "docs" / "simulation.md"
BEGIN, END = "<!-- from the mutation run: begin -->", "<!-- from the mutation run: end -->"

_HEAD = "| mutant | what it breaks | unit test | seed |", "|---|---|---|---|"

Row = tuple[Mutant, Verdict, Verdict]
"""A mutant, the result of its unit tests, the result of its seeds."""


def table(rows: list[Row], header: str) -> str:
    """Returns the table, after a sentence with `header` and the numbers of found mutants."""
    by_tests = sum(bool(tests.found) for _, tests, _ in rows)
    by_seeds = sum(bool(seeds.found) for _, _, seeds in rows)
    alive = [mutant.name for mutant, tests, seeds in rows if not tests.found and not seeds.found]
    lines = [
        f"{header}: {len(rows)} mutants, {by_tests} found by unit tests, {by_seeds} by the simulator, "
        f"{len(alive)} by neither{': ' + ', '.join(alive) if alive else ''}.",
        "",
        *_HEAD,
    ]
    return "\n".join(lines + [_line(row) for row in rows])


def with_some(page: str, rows: list[Row], names: list[str]) -> str:
    """Returns the page with these rows in its table, new or in place of old ones. The table then has the rows of the
    mutants `names`, in this order, and names that still have no row are left out. Raises `ListError` as `with_table`.

    All rows must be found by unit tests. The sentence above the table counts those that the last whole run had not.
    """
    text = _between(page)
    lines = {name: line for line in text.splitlines() if (name := _name_of(line))}
    lines.update((row[0].name, _line(row)) for row in rows)
    kept = [lines[name] for name in names if name in lines]
    head = text.partition("| mutant |")[0].partition(" Later: ")[0].strip()
    counted = re.search(r": (\d+) mutants,", head)
    if counted is None:
        raise ListError(f"{PAGE.name}: the sentence above the table does not count the mutants")
    later = f" Later: {len(kept) - int(counted[1])} new ones, all found by unit tests; they were tried without seeds."
    return with_table(page, "\n".join([head + later, "", *_HEAD, *kept]))


def _name_of(line: str) -> str:
    found = re.match(r"\| `([^`]+)` \|", line)
    return found[1] if found else ""


def _line(row: Row) -> str:
    mutant, tests, seeds = row
    return f"| `{mutant.name}` | {mutant.breaks} | {_test(tests)} | {_seed(mutant, seeds)} |"


def _test(verdict: Verdict) -> str:
    if not verdict.found:
        return "passes" if verdict.ran else "-"
    path, _, name = verdict.found.partition("::")
    return f"`{name.partition('[')[0] or path}`, {verdict.seconds:.0f} s"


def _seed(mutant: Mutant, verdict: Verdict) -> str:
    if not verdict.ran:
        return "-"
    options = mutant.sim.removeprefix("--nodes 3").strip()
    shown = f" `{options}`" if options else ""
    return f"{verdict.found}{shown}: {verdict.why}, {verdict.seconds:.0f} s" if verdict.found else f"none{shown}"


def with_table(page: str, text: str) -> str:
    """Returns the page with this table between the marks. Raises `ListError` unless each mark occurs once."""
    _between(page)
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def _between(page: str) -> str:
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ListError(f"{PAGE.name}: the marks {BEGIN} and {END} must each occur once")
    return page.partition(BEGIN)[2].partition(END)[0]

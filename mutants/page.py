"""Makes the table of mutants in docs/simulation.md, between its two marks."""

from __future__ import annotations

from pathlib import Path

from .catalogue import ListError, Mutant
from .trial import Verdict

PAGE = Path(__file__).resolve().parent.parent / "docs" / "simulation.md"
BEGIN, END = "<!-- from the mutation run: begin -->", "<!-- from the mutation run: end -->"

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
        "| mutant | what it breaks | unit test | seed |",
        "|---|---|---|---|",
    ]
    for mutant, tests, seeds in rows:
        lines.append(f"| `{mutant.name}` | {mutant.breaks} | {_test(tests)} | {_seed(mutant, seeds)} |")
    return "\n".join(lines)


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

"""Write docs/conformance.md: every numbered statement of the MQTT standards, and the tests of each.

The statements are in docs/conformance/*.tsv. A test cites a statement by its number in square brackets, in a docstring,
a comment or a case table. Numbers of MQTT 5.0 have the prefix MQTT5-, so that they differ from those of 3.1.1. `make
conformance` rewrites the page. `--check` fails if the page is out of date, or if a statement has neither a test nor a
reason. In both cases a citation of an unknown number is an error.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STANDARDS = {"mqtt311": "MQTT 3.1.1", "mqtt5": "MQTT 5.0"}
COLUMNS = ["id", "who", "kind", "summary", "reason"]
NOT_SOURCE = {"tests", "docs", "dev", "build", "dist", "data", "run"}

STATEMENT_ID = re.compile(r"(MQTT5?)-(\d+)\.(\d+)\.(\d+)-(\d+)")
CITATION = re.compile(r"\[(MQTT5?-\d[^\]\n]*)\]")

HEADER = """\
# Conformance

Written by `docs/conformance.py` (`make conformance`) from the statements in `docs/conformance/` and from the tests:
do not edit. The standards number what an implementation must do, as `[MQTT-3.1.2-1]`; here the numbers of MQTT 5.0
begin with `MQTT5-`, because the two standards use the same numbers for different statements. The summaries are ours;
the standard's own text decides. The lists are those of each standard's Appendix B; where a standard spells a number
in two ways (3.1.2-7 and 3.8.3-4 in 3.1.1, 4.2.0-1 in 5.0) the regular form stands here. MQTT 3.1 has no numbered
statements; it shares the session machine, and the tests, of 3.1.1.

*Tested*: a test cites the number. *Reason*: no test, and the reason why. *Open*: neither. Statements that bind only
the client have a test where the broker's answer to a client that breaks them matters.
"""


@dataclass(frozen=True, slots=True)
class Statement:
    """One numbered statement. `who` must obey it: server, client or both. `reason`: why it has no test, or ""."""

    id: str
    who: str
    kind: str
    summary: str
    reason: str

    @property
    def numbers(self) -> tuple[int, ...]:
        """The four numbers of the id, for sorting."""
        match = STATEMENT_ID.fullmatch(self.id)
        assert match is not None
        return tuple(int(number) for number in match.groups()[1:])

    @property
    def section(self) -> str:
        """The section of the standard that contains the statement, such as 3.1."""
        return "{}.{}".format(*self.numbers)


@dataclass(slots=True)
class Citations:
    """The citations: id -> tests (`path::function`), id -> source files; and errors in them."""

    tests: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    code: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    errors: list[str] = field(default_factory=list)


def load_statements(path: Path) -> list[Statement]:
    """Returns the statements of one standard in numeric order. Raises ValueError with file and line for a wrong row."""
    prefix = "MQTT5" if path.stem == "mqtt5" else "MQTT"
    statements: dict[str, Statement] = {}
    for line_number, row in enumerate(path.read_text("utf-8").splitlines(), 1):
        cells = row.split("\t")
        if line_number == 1 and cells == COLUMNS:
            continue
        where = f"{path.name}:{line_number}"
        if len(cells) != len(COLUMNS):
            raise ValueError(f"{where}: {len(cells)} columns instead of {len(COLUMNS)}")
        statement = Statement(*cells)
        match = STATEMENT_ID.fullmatch(statement.id)
        if match is None or match[1] != prefix:
            raise ValueError(f"{where}: {statement.id!r} is not an id of this standard")
        if statement.id in statements:
            raise ValueError(f"{where}: {statement.id} stands here twice")
        if statement.who not in ("server", "client", "both") or statement.kind not in ("MUST", "MUST NOT"):
            raise ValueError(f"{where}: who is server, client or both; kind is MUST or MUST NOT")
        if not statement.summary or (statement.who == "client" and not statement.reason):
            raise ValueError(f"{where}: {statement.id} needs a summary, and a reason if it binds the client")
        statements[statement.id] = statement
    return sorted(statements.values(), key=lambda statement: statement.numbers)


def load_titles(path: Path) -> dict[tuple[str, str], str]:
    """Returns (standard, section) -> title of the section."""
    rows = [row.split("\t") for row in path.read_text("utf-8").splitlines()[1:]]
    return {(standard, section): title for standard, section, title in rows}


def skipped_numbers(statements: Sequence[Statement]) -> list[str]:
    """Returns the ids that the numbering of the standard skips."""
    last: dict[str, int] = defaultdict(int)
    known = {statement.id for statement in statements}
    for statement in statements:
        paragraph, _, number = statement.id.rpartition("-")
        last[paragraph] = max(last[paragraph], int(number))
    ids = [f"{paragraph}-{number}" for paragraph, top in last.items() for number in range(1, top + 1)]
    return [id for id in ids if id not in known]


def cited_ids(line: str) -> Iterator[str]:
    """Yield the ids cited in one line of text. One pair of brackets may have several, separated by commas."""
    for match in CITATION.finditer(line):
        yield from re.split(r"[,;\s]+", match[1].strip())


def _fill(names: list[str], lines: list[str], node: ast.stmt, outer: str) -> None:
    """Set `names` for the lines of a class or test function, with its decorators and the comments around it."""
    if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return
    if not isinstance(node, ast.ClassDef) and not node.name.startswith("test"):
        return
    name = f"{outer}::{node.name}"
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    last = node.end_lineno or node.lineno
    while first > 1 and lines[first - 2].startswith(" " * node.col_offset + "#"):
        first -= 1
    while last < len(lines) and lines[last].startswith(" " * (node.col_offset + 1)):
        if not lines[last].lstrip().startswith("#"):
            break
        last += 1
    names[first - 1 : last] = [name] * (last - first + 1)
    if isinstance(node, ast.ClassDef):
        for inner in node.body:
            _fill(names, lines, inner, name)


def places(text: str, path: str) -> list[str]:
    """Returns for each line its test: `path::function`, `path::Class::function`, or only the path of the module."""
    lines = text.splitlines()
    names = [path] * len(lines)
    if path.endswith(".py"):
        for node in ast.parse(text).body:
            _fill(names, lines, node, path)
    return names


def _files(root: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the files that may cite statements, in a fixed order: (path, whether it is a test)."""
    for top in sorted(root.iterdir()):
        if top.name.startswith("."):
            continue
        if top.name == "tests":
            yield from ((path, True) for path in sorted(top.rglob("*")) if path.is_file())
        elif top.is_dir() and top.name not in NOT_SOURCE:
            yield from ((path, False) for path in sorted(top.rglob("*.py")))
        elif top.suffix == ".py":
            yield top, False


def scan(root: Path, known: set[str]) -> Citations:
    """Read the citations of the tests and the source below `root`. An id that is not in `known` becomes an error."""
    citations = Citations()
    for path, is_test in _files(root):
        relative = path.relative_to(root).as_posix()
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # recorded bytes and compiled modules have no citations
        if not CITATION.search(text):
            continue
        try:
            names = places(text, relative) if is_test else []
        except SyntaxError as error:
            citations.errors.append(f"{relative}:{error.lineno}: {error.msg}")
            continue
        for line_number, line in enumerate(text.splitlines(), 1):
            for id in cited_ids(line):
                if id not in known:
                    twin = id.replace("MQTT-", "MQTT5-") if id.startswith("MQTT-") else id.replace("MQTT5-", "MQTT-")
                    hint = f"; {twin} does" if twin in known else ""
                    citations.errors.append(f"{relative}:{line_number}: [{id}] does not exist{hint}")
                elif is_test:
                    citations.tests[id].add(names[line_number - 1])
                else:
                    citations.code[id].add(relative)
    return citations


def open_statements(statements: Sequence[Statement], citations: Citations) -> list[Statement]:
    """Returns the statements with neither a test nor a reason."""
    return [statement for statement in statements if not citations.tests[statement.id] and not statement.reason]


def _cell(names: set[str]) -> str:
    return "<br>".join(f"`{name}`" for name in sorted(names))


def _summary(standards: dict[str, list[Statement]], citations: Citations) -> Iterator[str]:
    yield "\n| Standard | Statements | Binding the server | Tested | Reason | Open |"
    yield "|---|---|---|---|---|---|"
    for standard, statements in standards.items():
        server = sum(statement.who != "client" for statement in statements)
        tested = sum(bool(citations.tests[statement.id]) for statement in statements)
        left = len(open_statements(statements, citations))
        reasons = len(statements) - tested - left
        yield f"| {STANDARDS[standard]} | {len(statements)} | {server} | {tested} | {reasons} | {left} |"
    for standard, statements in standards.items():
        if skipped := skipped_numbers(statements):
            yield f"\nNumbers that {STANDARDS[standard]} itself leaves out: {', '.join(skipped)}."


def render(standards: dict[str, list[Statement]], titles: dict[tuple[str, str], str], citations: Citations) -> str:
    """Returns the text of the page."""
    lines = [HEADER.rstrip(), *_summary(standards, citations)]
    for standard, statements in standards.items():
        lines.append(f"\n## {STANDARDS[standard]}")
        section = ""
        for statement in statements:
            if statement.section != section:
                section = statement.section
                lines.append(f"\n### {section} {titles[standard, section]}\n")
                lines.append("| Statement | Who | Summary | Tests, or the reason why there is none | Obeyed in |")
                lines.append("|---|---|---|---|---|")
            held = _cell(citations.tests[statement.id]) or statement.reason or "**open**"
            code = _cell(citations.code[statement.id])
            lines.append(f"| {statement.id} | {statement.who} | {statement.summary} | {held} | {code} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Write the page, or with --check compare it. Returns 0, or 1 after printing the problems to standard error."""
    parser = argparse.ArgumentParser(description="Write docs/conformance.md.")
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail if the page is out of date or a statement is open"
    )
    check = parser.parse_args(argv).check
    data, page = root / "docs" / "conformance", root / "docs" / "conformance.md"
    standards = {standard: load_statements(data / f"{standard}.tsv") for standard in STANDARDS}
    everything = [statement for statements in standards.values() for statement in statements]
    citations = scan(root, {statement.id for statement in everything})
    text = render(standards, load_titles(data / "sections.tsv"), citations)
    problems = list(citations.errors)
    if check:
        if not page.exists() or page.read_text("utf-8") != text:
            problems.append("docs/conformance.md is out of date: run `make conformance`")
        problems += [f"{s.id} has neither a test nor a reason" for s in open_statements(everything, citations)]
    elif not problems:
        page.write_text(text, "utf-8")
        print(f"docs/conformance.md: {len(everything)} statements, {len(open_statements(everything, citations))} open")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""Every citation resolves: hazards, promises, anomalies, statements, decisions, pages and links.

RFCs and sections of the MQTT standards are public and may be cited.
"""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from strogoff.sim.planted_bugs.cluster_bugs import CLUSTER_BUGS
from strogoff.sim.planted_bugs.node_bugs import NODE_BUGS

ROOT = Path(__file__).resolve().parents[2]
HAZARDS = ROOT / "docs" / "hazards.md"
READ = {".py", ".md", ".toml"}
NOT_SOURCE = {"build", "dist", "data", "run", "node_modules", "__pycache__"}

GAP = r"(?:[ \t]+|[ \t]*\n[ \t]*(?:#[ \t]*)?)"
"""Between two words, also where a line ends between them."""
FORMER = re.compile(
    r"\breview, (?:section )?\d|\bthe (?:design )?review\b|\bholes? \d|\bambiguit(?:y|ies) \d"
    r"|\bINV \d|\[R \d|\barchitecture \d".replace(" ", GAP),
    re.IGNORECASE,
)
"""Pages that are not in the project."""
HAZARD = re.compile(r"(?<![\w-])H-(\d+)\b(?: \(([a-z](?:, [a-z])*)\))?")
PROMISE = re.compile(r"\bP(\d+)\b")
ANOMALY = re.compile(r"\banomal(?:y|ies) (A\d+(?:(?:,| and) A\d+)*)".replace(" ", GAP))
STATEMENT = re.compile(r"\[(MQTT5?-\d[^\]\n]*)\]")
DECISION = re.compile(r"\bdecision (\d+)\b")
PAGE = re.compile(r"\bdocs/([\w/-]+\.md)(?:#([\w-]+))?(?:, section (\d+))?")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


@cache
def page_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def anchors(path: Path) -> set[str]:
    """Returns the anchors of the links to this page."""
    titles = re.findall(r"^#+ (.+)$", FENCED.sub("", page_of(path)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def table_ids(path: Path, letter: str) -> set[str]:
    """Returns the numbers in the first column of the tables of a page."""
    return set(re.findall(rf"^\| ({letter}\d+) \|", page_of(path), re.MULTILINE))


@dataclass(frozen=True)
class Known:
    """The citable ids. `hazards` has the letters of the cases of each entry."""

    hazards: dict[str, set[str]]
    promises: set[str]
    anomalies: set[str]
    statements: set[str]
    decisions: set[int]


@cache
def entries() -> dict[str, str]:
    """Returns the entries of docs/hazards.md by their numbers."""
    return dict(re.findall(r"^## H-(\d+) (.*?)(?=^## |\Z)", page_of(HAZARDS), re.DOTALL | re.MULTILINE))


@cache
def known() -> Known:
    lists = sorted((ROOT / "docs" / "conformance").glob("mqtt*.tsv"))
    return Known(
        {number: set(re.findall(r"\(([a-z])\)", entry)) for number, entry in entries().items()},
        table_ids(ROOT / "docs" / "promises.md", "P"),
        table_ids(HAZARDS, "A"),
        {line.split("\t")[0] for path in lists for line in page_of(path).splitlines()},
        {int(path.name[:4]) for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md")},
    )


def cited(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Returns the unresolved citations of a text: position and sentence."""
    there = known()
    for match in FORMER.finditer(text):
        yield match.start(), f"{' '.join(match[0].split())}: not a page of this project"
    for match in HAZARD.finditer(text):
        if match[1] not in there.hazards:
            yield match.start(), f"H-{match[1]}: docs/hazards.md has no such entry"
        elif match[2] and not set(match[2].split(", ")) <= there.hazards[match[1]]:
            yield match.start(), f"{match[0]}: that entry has no such case"
    for match in PROMISE.finditer(text):
        if match[0] not in there.promises:
            yield match.start(), f"{match[0]}: docs/promises.md has no such promise"
    for match in ANOMALY.finditer(text):
        for name in set(re.findall(r"A\d+", match[1])) - there.anomalies:
            yield match.start(), f"{name}: docs/hazards.md has no such anomaly"
    for match in STATEMENT.finditer(text):
        for name in {each.strip() for each in match[1].split(",")} - there.statements:
            yield match.start(), f"{name}: the standard has no such statement"
    for match in DECISION.finditer(text):
        if int(match[1]) not in there.decisions:
            yield match.start(), f"{match[0]}: docs/decisions has none of that number"
    for match in PAGE.finditer(text):
        yield from missing(match.start(), match[0], ROOT / "docs" / match[1], match[2], match[3])
    if path.suffix == ".md":
        plain = FENCED.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)
        for match in LINK.finditer(plain):
            if not re.match(r"[a-z]+:", match[1]):
                target, _, anchor = match[1].partition("#")
                yield from missing(match.start(), match[1], path.parent / target if target else path, anchor, None)


def missing(at: int, name: str, page: Path, anchor: str | None, section: str | None) -> Iterator[tuple[int, str]]:
    """Returns an error for a missing page, heading or numbered section."""
    if not page.exists():
        yield at, f"{name}: there is no such page"
    elif anchor and anchor not in anchors(page):
        yield at, f"{name}: the page has no such heading"
    elif section and not re.search(rf"^## {section}\. ", page_of(page), re.MULTILINE):
        yield at, f"{name}: the page has no such section"


def complaints(path: Path, text: str) -> list[str]:
    """Returns the unresolved citations of a file with this text, with line numbers."""
    name = path.relative_to(ROOT)
    return [f"{name}:{text.count(chr(10), 0, at) + 1}: {sentence}" for at, sentence in sorted(cited(path, text))]


def files() -> Iterator[Path]:
    for folder, below, names in os.walk(ROOT):
        below[:] = sorted(name for name in below if not name.startswith(".") and name not in NOT_SOURCE)
        yield from (Path(folder, name) for name in sorted(names) if Path(name).suffix in READ)


@pytest.mark.slow
def test_every_citation_resolves() -> None:
    found = [complaint for path in files() for complaint in complaints(path, path.read_text(encoding="utf-8"))]
    assert found == []


# --- the check itself ---

OLD = "hole"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"(review, {OLD} 7)", "not a page"),
        (f"Review, {OLD}s 4 (c) and 12: it waits", "not a page"),
        (f"(P5; {OLD} 19)", "not a page"),
        (f"# it waits ({OLD}\n    # 14)", "not a page"),
        ("its number in the " + "review", "not a page"),
        ("(review, " + "section 4)", "not a page"),
        ("(P5; review, " + "19)", "not a page"),
        ("(review, ambiguity" + " 13)", "not a page"),
        ("as VerneMQ has it (INV" + " 6.2)", "not a page"),
        ("(INV" + "\n5.1)", "not a page"),
        ("no policy refuses it [R" + " 13, 20]", "not a page"),
        ("(architecture" + " 4, item 5)", "not a page"),
        ("(H-" + "99)", "no such entry"),
        ("(H-" + "7)", "no such entry"),
        ("H-" + "04 (c, f): it stands still", "no such case"),
        ("(P" + "11)", "no such promise"),
        ("(anomalies A1, A" + "99)", "no such anomaly"),
        ("[MQTT" + "5-9.9.9-9]", "no such statement"),
        ("([decision " + "99](x.md))", "none of that number"),
        ("(docs/" + "nowhere.md)", "no such page"),
        ("(docs/cluster.md#" + "nowhere)", "no such heading"),
        ("(docs/architecture.md, section" + " 99)", "no such section"),
    ],
)
def test_a_planted_citation_is_found(text: str, sentence: str) -> None:
    (found,) = complaints(ROOT / "broker" / "planted.py", f"x = 1\n{text}\n")
    assert found.startswith("broker/planted.py:2: ")
    assert sentence in found


@pytest.mark.parametrize(
    ("link", "sentence"),
    [("nowhere.md", "no such page"), ("cluster.md#nowhere", "no such heading"), ("#nowhere", "no such heading")],
)
def test_a_planted_link_is_found(link: str, sentence: str) -> None:
    path = ROOT / "docs" / "glossary.md"
    (found,) = complaints(path, f"Words.\n\nSee [a page]({link}).\n")
    assert found.startswith("docs/glossary.md:3: ")
    assert sentence in found


def test_existing_and_public_texts_may_be_cited() -> None:
    text = (
        "(H-07) H-04 (a, b): (P1; H-19) (anomaly A1) [MQTT-3.1.0-1] RFC 6455 section 7.1.2, MQTT 5.0 section 4.12\n"
        "docs/cluster.md#times (docs/architecture.md, section 4) [decision 6](decisions/0001-layout-and-packaging.md)\n"
        "[there](#glossary) [out](https://example.org/x.md) a hole in the log\n```\n[x](nowhere.md)\n```\n"
    )
    assert complaints(ROOT / "docs" / "glossary.md", text) == []


# --- tests, checkers, planted bugs and mutants in hazards.md ---


def names_in(entry: str, kind: str) -> list[str]:
    """Returns the names behind `checkers:` and the like; they end with a semicolon, an empty line or the next item."""
    lists = re.findall(rf"\b{kind}: (.*?)(?=;|\n- |\n\n|\Z)", entry, re.DOTALL)
    return re.findall(r"`([^`]+)`", " ".join(lists))


@cache
def functions(path: Path) -> set[str]:
    tree = ast.parse(page_of(path))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@cache
def checks() -> dict[str, set[str]]:
    """Returns the names of all checkers, planted bugs and mutants."""
    mutants = tomllib.loads(page_of(ROOT / "mutants" / "mutants.toml"))["mutant"]
    return {
        "checkers": {path.stem for path in (ROOT / "sim" / "checkers").glob("*.py")},
        "planted bugs": {*NODE_BUGS, *CLUSTER_BUGS},
        "mutants": {mutant["name"] for mutant in mutants},
    }


def unheld(entry: str) -> list[str]:
    """Returns the tests, checkers, planted bugs and mutants of an entry that do not exist."""
    wrong = [name for kind, names in checks().items() for name in names_in(entry, kind) if name not in names]
    for name in re.findall(r"`(tests/[^`]+)`", entry):
        path, _, test = name.partition("::")
        if not (ROOT / path).is_file() or test not in functions(ROOT / path):
            wrong.append(name)
    return wrong


def test_hazards_are_in_the_order_of_their_numbers() -> None:
    """A number has one entry. Numbers may be missing: some are reserved."""
    assert list(entries()) == sorted({*entries()})


def test_every_name_in_a_hazard_exists() -> None:
    assert {number: unheld(entry) for number, entry in entries().items() if unheld(entry)} == {}


def test_each_covered_hazard_has_a_test_and_another_check() -> None:
    for number, entry in entries().items():
        if "Rule: not built" not in entry:
            assert "`tests/" in entry, number
            assert names_in(entry, "checkers") or names_in(entry, "mutants"), number


def test_each_planted_bug_of_a_cluster_is_listed_at_its_hazard() -> None:
    for bug in CLUSTER_BUGS.values():
        assert bug.name in names_in(entries()[f"{bug.hazard:02}"], "planted bugs"), bug.name


def test_a_planted_name_is_found() -> None:
    gone = "tests/docs/test_citations.py::test_gone"
    entry = f"- `{gone}`\n- checkers: `gone`; planted bugs: `will-lost`, `gone`\n- mutants: `x`"
    assert unheld(entry) == ["gone", "gone", "x", gone]

"""The list of mutants: every entry applies to the present source, and a wrong one is named."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from strogoff.mutants.catalogue import ListError, Mutant, read
from strogoff.sim.commands import register

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = read()


def changed_sources() -> Iterator[tuple[Mutant, str, str]]:
    """Returns each mutant, the source of its file, and the source that the mutant makes of it."""
    sources: dict[str, str] = {}
    for mutant in MUTANTS:
        if mutant.file not in sources:
            sources[mutant.file] = (ROOT / mutant.file).read_text(encoding="utf-8")
        yield mutant, sources[mutant.file], mutant.apply(sources[mutant.file])


def test_each_mutant_applies_once() -> None:
    assert [mutant.name for mutant, source, changed in changed_sources() if changed == source] == []


@pytest.mark.slow
def test_each_mutant_is_valid_python() -> None:
    for mutant, _, changed in changed_sources():
        compile(changed, f"{mutant.file} with {mutant.name}", "exec")


def test_the_tests_of_each_mutant_exist() -> None:
    paths = {(mutant.name, path.partition("::")[0]) for mutant in MUTANTS for path in mutant.tests}
    assert [each for each in sorted(paths) if not (ROOT / each[1]).exists()] == []


def test_each_mutant_says_in_a_sentence_what_it_breaks() -> None:
    assert [mutant.name for mutant in MUTANTS if not mutant.breaks.endswith(".") or "|" in mutant.breaks] == []


def entry(**changes: str) -> str:
    fields = {
        "name": '"a"', "file": '"x.py"', "before": '"one"', "after": '"two"', "breaks": '"It counts."',
        "tests": '["tests/test_x.py"]',
    } | changes  # fmt: skip
    return "\n".join(["[[mutant]]", *[f"{key} = {value}" for key, value in fields.items() if value]])


def test_an_entry_is_read(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text(entry(sim='"--nodes 3"', first="7"), encoding="utf-8")
    assert read(path) == (Mutant("a", "x.py", "one", "two", "It counts.", ("tests/test_x.py",), "--nodes 3", 7),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (entry() + "\n" + entry(), "mutant a: the name is in the list twice"),
        (entry(after=""), "mutant a: after must be given, as text"),
        (entry(after='"one"'), "mutant a: before and after are the same"),
        (entry(tests=""), "mutant a: neither tests nor sim, so nothing can find it"),
        (entry(seed="3"), "mutant a: unknown keys seed"),
        (entry(first='"3"'), "mutant a: tests is a list of paths, sim a text of options, first a number"),
        ("[[mutant]", "list.toml: "),
    ],
)
def test_a_wrong_list_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "list.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ListError, match=problem):
        read(path)


@pytest.mark.parametrize("source", ["nothing", "one and one"])
def test_a_mutant_that_does_not_apply_once_is_an_error(source: str) -> None:
    mutant = Mutant("a", "x.py", "one", "two", "It counts.")
    assert mutant.apply("just one") == "just two"
    with pytest.raises(ListError, match=r"mutant a: `before` occurs [02] times in x.py; it must occur once"):
        mutant.apply(source)


def test_the_simulator_knows_the_options_of_every_mutant() -> None:
    parser = argparse.ArgumentParser()
    register(parser)
    for mutant in read():
        parser.parse_args(mutant.sim.split())

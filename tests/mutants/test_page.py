"""The table of mutants in docs/simulation.md."""

from __future__ import annotations

import re

import pytest

from strogoff.mutants.catalogue import ListError, Mutant, read
from strogoff.mutants.page import BEGIN, END, PAGE, table, with_some, with_table
from strogoff.mutants.trial import NOT_RUN, Verdict

ONE = Mutant("one", "x.py", "a", "b", "It counts.", ("tests/x.py",), "--nodes 3 --workload routes")
TWO = Mutant("two", "x.py", "a", "b", "It adds.", ("tests/x.py",))


def test_the_page_has_all_mutants() -> None:
    text = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert re.findall(r"(?m)^\| `([^`]+)", text) == [mutant.name for mutant in read()], "run `make mutants`"


def test_the_table_names_the_checks_that_found_each_mutant() -> None:
    rows = [
        (ONE, Verdict("", "", 3.0), Verdict("17", "lost", 4.4)),
        (TWO, Verdict("tests/x.py::test_it[a-b]", "", 2.0), NOT_RUN),
    ]
    text = table(rows, "At abc")
    assert text.startswith("At abc: 2 mutants, 1 found by unit tests, 1 by the simulator, 0 by neither.\n")
    assert "| `one` | It counts. | passes | 17 `--workload routes`: lost, 4 s |" in text
    assert "| `two` | It adds. | `test_it`, 2 s | - |" in text
    survivor = table([(ONE, Verdict("", "", 3.0), Verdict("", "", 90.0))], "At abc")
    assert "1 by neither: one." in survivor and "| passes | none `--workload routes` |" in survivor


def test_the_table_stands_between_its_marks() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    written = with_table(page, "| `one` | x |")
    assert written == f"before\n{BEGIN}\n\n| `one` | x |\n\n{END}\nafter\n"
    with pytest.raises(ListError, match="must each occur once"):
        with_table("no marks", "x")


def test_rows_of_some_mutants_are_added_in_the_order_of_the_list() -> None:
    found = Verdict("tests/x.py::test_it", "", 2.0)
    page = with_table(f"before\n{BEGIN}\n{END}\nafter\n", table([(ONE, found, NOT_RUN)], "At abc"))
    other = Mutant("other", "x.py", "a", "b", "It ends.", ("tests/x.py",))
    names = ["two", "one", "other", "untried"]
    written = with_some(page, [(other, found, NOT_RUN), (TWO, found, NOT_RUN)], names)
    assert re.findall(r"(?m)^\| `([^`]+)", written) == ["two", "one", "other"]
    assert "At abc: 1 mutants, 1 found by unit tests, 0 by the simulator, 0 by neither. Later: 2 new ones" in written
    slower = Verdict("tests/x.py::test_it", "", 9.0)
    again = with_some(written, [(TWO, slower, NOT_RUN)], names)
    assert again == written.replace("| `two` | It adds. | `test_it`, 2 s |", "| `two` | It adds. | `test_it`, 9 s |")
    with pytest.raises(ListError, match="does not count"):
        with_some(f"{BEGIN}\n{END}", [], [])

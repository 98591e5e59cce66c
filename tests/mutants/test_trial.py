"""Mutants in a copy of a checkout: the checks that find them, and errors of the list."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from strogoff.mutants import trial
from strogoff.mutants.catalogue import ListError, Mutant
from strogoff.mutants.trial import NOT_RUN, Checkout, confirm, try_seeds, try_tests

TESTS = """
import time
from strogoff.counting import value

def test_value():
    if value() == 3:
        time.sleep(60)
    assert value() == 1
"""

CLI = """
import sys
from .counting import value

if value() == 4:
    raise SystemExit("no such option")
if value() != 1:
    print("seed 7: 2 violations")
    print("    lost: c0 never got w-1")
    print("    lost: c0 never got w-2")
    sys.exit(1)
print("200 seeds, 0 failed")
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # what it executes is not this checkout
    root = tmp_path / "root"
    (root / "tests").mkdir(parents=True)
    (root / "testing").mkdir()
    for name in ("__init__.py", "testing/__init__.py", "testing/plugin.py"):
        (root / name).write_text("")  # pytest loads the plugin of the package
    (root / "counting.py").write_text("def value():\n    return 1\n")
    (root / "tests" / "test_counting.py").write_text(TESTS)
    (root / "__main__.py").write_text(CLI)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return Checkout(root, tmp_path / "copy")


def mutant(
    after: str = "return 2", tests: tuple[str, ...] = ("tests/test_counting.py",), sim: str = "--nodes 3"
) -> Mutant:
    return Mutant("m", "counting.py", "return 1", after, "It counts.", tests, sim)


def test_a_mutant_is_applied_and_removed(checkout: Checkout, tmp_path: Path) -> None:
    source = checkout.put(mutant())
    path = checkout.place / "counting.py"
    assert "return 2" in path.read_text() and "return 1" in (tmp_path / "root" / "counting.py").read_text()
    checkout.restore(mutant(), source)
    assert "return 1" in path.read_text()


def test_a_failing_test_and_a_failing_seed_find_it(checkout: Checkout) -> None:
    assert try_tests(checkout, mutant()).found == "" and try_seeds(checkout, mutant(), 5, 60).found == ""
    checkout.put(mutant())
    assert try_tests(checkout, mutant()).found == "tests/test_counting.py::test_value"
    found = try_seeds(checkout, mutant(), 5, 60)
    assert (found.found, found.why, found.ran) == ("7", "lost", True)


def test_a_test_that_fails_without_the_mutant_has_found_nothing(checkout: Checkout) -> None:
    source = checkout.put(mutant())
    found = try_tests(checkout, mutant())
    with pytest.raises(ListError, match=r"m: tests/test_counting\.py::test_value fails without it"):
        confirm(checkout, mutant(), found)
    checkout.restore(mutant(), source)
    confirm(checkout, mutant(), found)
    confirm(checkout, mutant(), trial.Verdict("hangs", "", 1.0))


def test_tests_that_hang_find_it(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "TEST_S", 3.0)
    checkout.put(mutant("return 3"))
    assert try_tests(checkout, mutant()).found == "hangs"


def test_only_named_checks_run(checkout: Checkout) -> None:
    assert try_tests(checkout, mutant(tests=())) == NOT_RUN == try_seeds(checkout, mutant(sim=""), 5, 60)


def test_wrong_entries_are_errors_and_find_nothing(checkout: Checkout) -> None:
    with pytest.raises(ListError, match="pytest ended with status 4"):
        try_tests(checkout, mutant(tests=("tests/test_other.py",)))
    with pytest.raises(ListError, match=r"there is no file other\.py"):
        checkout.put(Mutant("m", "other.py", "a", "b", "It counts."))
    checkout.put(mutant("return 4"))
    with pytest.raises(ListError, match=r"strogoff sim ended with status 1:\nno such option"):
        try_seeds(checkout, mutant(), 5, 60)

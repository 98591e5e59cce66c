"""The command: its choice of mutants, its output, and its status."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from strogoff.mutants import __main__ as command
from strogoff.mutants.catalogue import ListError, Mutant, read
from strogoff.mutants.trial import NOT_RUN, Verdict

LIST = tuple([Mutant(name, "mutants/page.py", "x", "y", "It counts.") for name in "abcdef"])


def test_names_a_sample_or_all() -> None:
    day = date(2026, 1, 2)
    assert command.chosen(LIST, ["c", "a"], None, day) == [LIST[2], LIST[0]]
    assert command.chosen(LIST, [], None, day) == list(LIST)
    sample = command.chosen(LIST, [], 3, day)
    assert sample == command.chosen(LIST, [], 3, day) and len(set(sample)) == 3
    assert {each for days in range(1, 20) for each in command.chosen(LIST, [], 3, date(2026, 1, days))} == set(LIST)
    with pytest.raises(ListError, match="no mutant is called z; there are a, b"):
        command.chosen(LIST, ["z"], None, day)


def test_surviving_mutants_set_the_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = Verdict("tests/x.py::test_it", "", 1.0)
    monkeypatch.setattr(command, "Checkout", lambda root, place: None)
    monkeypatch.setattr(command, "one", lambda checkout, mutant, arguments: (mutant, found, NOT_RUN))
    first, second = [mutant.name for mutant in read()[:2]]
    assert command.main([first, second]) == 0
    assert f"killed   {first}: tests: tests/x.py::test_it" in capsys.readouterr().out

    def survives(checkout: Any, mutant: Mutant, arguments: Any) -> tuple[Mutant, Verdict, Verdict]:
        return mutant, Verdict("", "", 1.0), Verdict("", "", 1.0)

    monkeypatch.setattr(command, "one", survives)
    assert command.main([first]) == 1
    assert f"1 of 1 mutants tried, 1 survive: {first}" in capsys.readouterr().out
    assert command.main(["--sample", "3", "--within", "-1"]) == 0
    assert "0 of 3 mutants tried" in capsys.readouterr().out
    assert command.main(["no-such-mutant"]) == 2

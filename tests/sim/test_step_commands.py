"""`strogoff sim --steps`."""

from __future__ import annotations

import re

import pytest

from strogoff.cli import main
from strogoff.sim import step_commands
from strogoff.sim.scenarios.steps import PROTOCOLS, Case
from strogoff.sim.simulation import Outcome


@pytest.mark.slow
def test_all_cases_of_some_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--steps", "clean", "--every", "60", "--jobs", "2"]) == 0
    said = re.fullmatch(r"(\d+) cases, 0 failed; [\d.]+ s\n", capsys.readouterr().out)
    assert said is not None and int(said[1]) in (9, 18)


def test_a_failing_case_is_printed_with_the_command_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[tuple[Case, bool]] = []

    def run(case: Case, trace: bool = False) -> Outcome:
        ran.append((case, trace))
        return Outcome(
            case.seed, ("lost: everything",) if case.number else (), 1, 1, 1, 1, ("a line",) if trace else ()
        )

    monkeypatch.setattr(step_commands, "run_case", run)
    assert main(["sim", "--steps", "qos2", "--first", "3", "--every", "50"]) == 1
    said = capsys.readouterr().out
    assert "lost: everything" in said and "qos2, seed 3, step 50: at " in said
    again = re.search(r"again: strogoff (.*)", said)
    assert again is not None and again[1] == "sim --steps qos2 --first 3 --every 50 --case 9 --trace"
    ran.clear()
    assert main(again[1].split()) == 1
    assert [(case.number, trace) for case, trace in ran] == [(50, True)]
    assert "a line" in capsys.readouterr().out


@pytest.mark.slow
def test_all_means_every_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(case: Case, trace: bool = False) -> Outcome:
        ran.append(case.protocol)
        return Outcome(case.seed, (), 1, 1, 1, 1, ())

    monkeypatch.setattr(step_commands, "run_case", run)
    assert main(["sim", "--steps", "all", "--every", "100"]) == 0
    assert list(dict.fromkeys(ran)) == list(PROTOCOLS)


def test_cases_done_before_ctrl_c_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(case: Case, trace: bool = False) -> Outcome:
        if case.number:
            raise KeyboardInterrupt
        return Outcome(case.seed, (), 1, 1, 1, 1, ())

    monkeypatch.setattr(step_commands, "run_case", run)
    assert main(["sim", "--steps", "qos1", "--every", "50"]) == 130
    assert re.fullmatch(r"9 cases, 0 failed; [\d.]+ s; stopped\n", capsys.readouterr().out)


def test_it_stops_at_the_first_failing_case_or_when_time_is_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(case: Case, trace: bool = False) -> Outcome:
        return Outcome(case.seed, ("no good",) if case.number else (), 1, 1, 1, 1, ())

    monkeypatch.setattr(step_commands, "run_case", run)
    assert main(["sim", "--steps", "qos1", "--every", "50", "--stop"]) == 1
    assert "10 cases, 1 failed" in capsys.readouterr().out
    assert main(["sim", "--steps", "qos1", "--every", "50", "--limit", "0"]) == 0
    assert "1 cases, 0 failed" in capsys.readouterr().out

"""`strogoff sim`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from strogoff.cli import main
from strogoff.sim import commands
from strogoff.sim.commands import run_seeds
from strogoff.sim.runner import RunOptions, run_seed
from strogoff.sim.simulation import NodeSimulation, Outcome


def test_clean_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--seeds", "3", "--first", "10", "--seconds", "5", "--durability", "os"]) == 0
    assert re.fullmatch(r"3 seeds, 0 failed; \d+ messages, \d+ faults; .* seeds/s\n", capsys.readouterr().out)


def test_seeds_done_before_ctrl_c_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(seeds: range, jobs: int, options: RunOptions) -> Iterator[Outcome]:
        yield run_seed(seeds[0], options)
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "run_seeds", stopped)
    assert main(["sim", "--seeds", "3", "--seconds", "5"]) == 130
    assert re.fullmatch(r"1 seeds, 0 failed; .* seeds/s; stopped\n", capsys.readouterr().out)


def test_a_failing_seed_is_printed_with_the_command_that_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--seeds", "2", "--bug", "ack-before-commit", "--durability", "sync"]) == 1
    told = capsys.readouterr().out
    assert "seed 0: " in told and "early ack" in told
    again = re.search(r"again: strogoff sim (.*)", told)
    assert again is not None
    assert main(["sim", *again.group(1).split()]) == 1
    assert "VIOLATION  early ack" in capsys.readouterr().out


def test_a_trace_reads_like_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--trace", "--seconds", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 50 and all(re.match(r" *\d+\.\d{6}  \S+ +\S", line) for line in lines)
    assert any("--> PUBLISH" in line for line in lines) and any("<-- PUB" in line for line in lines)


def test_jobs_change_nothing() -> None:
    assert list(run_seeds(range(4), 2, RunOptions(5.0))) == list(run_seeds(range(4), 1, RunOptions(5.0)))


def test_an_exception_in_the_node_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: NodeSimulation) -> None:
        raise ValueError("no good")

    monkeypatch.setattr(NodeSimulation, "run", broken)
    (text,) = run_seed(0).violations
    assert text.startswith("crash: ValueError: no good, at ")


def test_bugs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--bugs"]) == 0
    assert "ack-before-commit" in capsys.readouterr().out


def test_a_workload_is_named_in_the_command_that_repeats_the_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[RunOptions | None] = []

    def failing(seeds: range, jobs: int, options: RunOptions) -> Iterator[Outcome]:
        asked.append(options)
        yield Outcome(seeds[0], ("no good",), 0, 0, 0, 0, ())

    monkeypatch.setattr(commands, "run_seeds", failing)
    assert main(["sim", "--nodes", "3", "--first", "7", "--workload", "groups"]) == 1
    assert asked == [RunOptions(nodes=3, workload="groups", variants=None)]
    assert "again: strogoff sim --first 7 --trace --nodes 3 --workload groups\n" in capsys.readouterr().out


def test_it_stops_at_the_first_failing_seed_or_when_time_is_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def third_fails(seeds: range, jobs: int, options: RunOptions) -> Iterator[Outcome]:
        for seed in seeds:
            yield Outcome(seed, ("no good",) if seed == 3 else (), 0, 0, 0, 0, ())

    monkeypatch.setattr(commands, "run_seeds", third_fails)
    assert main(["sim", "--nodes", "3", "--seeds", "9", "--stop", "--variant", "small,narrow"]) == 1
    told = capsys.readouterr().out
    assert "4 seeds, 1 failed" in told
    assert "again: strogoff sim --first 3 --trace --nodes 3 --variant small,narrow\n" in told
    assert main(["sim", "--nodes", "3", "--seeds", "3", "--limit", "0"]) == 0
    assert "1 seeds, 0 failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["--bug", "none"],
        ["--durability", "none"],
        ["--seeds", "x"],
        ["--workload", "none"],
        ["--workload", "groups"],
        ["--variant", "huge"],
        ["--scenario", "away"],
    ],
)
def test_wrong_arguments_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", *words]) == 2
    assert "usage: strogoff sim" in capsys.readouterr().err

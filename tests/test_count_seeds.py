"""`dev/count_seeds.py`: it runs all kinds of seeds alike, goes on where it stopped, and tells failures."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from tests.harness.scripts import load_script


@pytest.fixture
def script() -> ModuleType:
    return load_script("dev/count_seeds.py")


def test_a_release_needs_20000_seeds_with_three_nodes_and_4000_with_five(script: ModuleType) -> None:
    parts = script.parts(0)
    seeds: Counter[str] = Counter()
    for part in parts:
        seeds[part.options.removesuffix(" --audit")[:9]] += script.PART
    assert seeds == {"--nodes 3": 20_000, "--nodes 5": 4_000}
    assert len({part.first for part in parts}) == len(parts)


def test_each_kind_has_had_its_share_at_any_time(script: ModuleType) -> None:
    half = Counter(part.options.removesuffix(" --audit") for part in script.parts(0)[:480])
    for kind in script.KINDS:
        assert abs(half[kind.options] * script.PART - kind.seeds / 2) <= script.PART


def test_the_first_seeds_of_each_kind_are_audited(script: ModuleType) -> None:
    parts = script.parts(0)
    assert sum(script.PART for part in parts if "--audit" in part.options) >= 3_000
    assert all("--audit" in part.options for part in parts if part.first % script.APART == 0)


def test_it_goes_on_where_it_was_stopped(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "PART", 1)
    monkeypatch.setattr(script, "KINDS", (script.Kind(2, "--seconds 1"),))
    (tmp_path / "stop").touch()
    assert script.main([str(tmp_path), "5"]) == 1
    assert capsys.readouterr().out == "0 of 2 parts are done; seeds of 0 failed\n"
    (tmp_path / "stop").unlink()
    assert script.main([str(tmp_path), "5", "--jobs", "1"]) == 0
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["5", "--seconds"], ["6", "--seconds"], ["2", "of"]
    ]  # fmt: skip
    assert script.main([str(tmp_path), "5"]) == 0
    assert capsys.readouterr().out == "2 of 2 parts are done; seeds of 0 failed\n"


def test_it_leaves_out_what_ran_on_another_machine(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "PART", 1)
    monkeypatch.setattr(script, "KINDS", (script.Kind(3, "--seconds 1"),))
    assert script.main([str(tmp_path), "5", "--jobs", "1", "--before", "2"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["7", "1"]


def test_failed_seeds_are_kept_and_told(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "KINDS", (script.Kind(25, "--bug ack-before-commit"),))
    assert script.main([str(tmp_path), "0"]) == 1
    assert "strogoff sim --first" in (tmp_path / "failed.txt").read_text()
    assert script.main([str(tmp_path), "0"]) == 1


def test_a_part_that_cannot_run_stops_the_others(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "KINDS", (script.Kind(50, "--nodes many"),))
    assert script.main([str(tmp_path), "0", "--jobs", "1"]) == 1
    assert "invalid int value: 'many'" in (tmp_path / "stop").read_text()
    assert not (tmp_path / "parts.jsonl").exists()

"""`strogoff analytics generate`: logs from a seed, what must be found in them, and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strogoff.analytics.generate.command import EXPECTED, LOG, cases_of, size_of
from strogoff.analytics.log_sources import find
from strogoff.analytics.schema import validate
from strogoff.cli import main
from strogoff.judge.definitions import DEFINITIONS
from strogoff.judge.planted.generate import CASES
from strogoff.judge.run import judge
from strogoff.testing.log_audit.log_files import read_log


def generate(out: Path, *argv: str, status: int = 0) -> None:
    """Run the command."""
    assert main(["analytics", "generate", "--out", str(out), *argv]) == status


def files(directory: Path) -> dict[str, bytes]:
    """Returns the content of all files below a directory."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_judges_find_what_is_expected_in_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generate(tmp_path / "g", "--messages", "1000", "--plant", "all,near-misses", "--seed", "7")
    expected = json.loads((tmp_path / "g" / EXPECTED).read_text())
    rows, rejects = read_log(tmp_path / "g" / LOG)
    assert rejects == []
    assert [text for row in rows for text in validate(row)] == []
    assert len(rows) == expected["rows"]
    report = judge(rows, complete=False)
    assert sorted(each.id for each in report.findings) == sorted(each["id"] for each in expected["findings"])
    assert report.verdict == expected["verdict"] == "unknown"  # some of them are holes
    assert {each["case"] for each in expected["findings"]} > {name for name, case in CASES.items() if case.wrong}
    assert sorted(expected["planted"]) == sorted(CASES)
    assert find(tmp_path / "g" / LOG).strangers == []
    said = capsys.readouterr().out
    assert f"{len(rows)} rows of 1000 messages in " in said
    assert f"{len(expected['findings'])} findings, verdict unknown" in said


@pytest.mark.parametrize(
    ("planted", "verdict"), [("", "valid"), ("A4,resent", "valid"), ("A6", "invalid"), ("A0", "unknown")]
)
def test_the_verdict(tmp_path: Path, planted: str, verdict: str) -> None:
    generate(tmp_path / "g", "--messages", "200", "--plant", planted)
    assert json.loads((tmp_path / "g" / EXPECTED).read_text())["verdict"] == verdict
    rows, _ = read_log(tmp_path / "g" / LOG)
    assert judge(rows, complete=False).verdict == verdict


def test_a_seed_gives_the_same_files(tmp_path: Path) -> None:
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        generate(tmp_path / name, "--messages", "300", "--plant", "A1", "--seed", seed)
    assert files(tmp_path / "a") == files(tmp_path / "b") != files(tmp_path / "c")


def test_more_nodes_and_hours(tmp_path: Path) -> None:
    generate(tmp_path / "g", "--messages", "600", "--nodes", "5", "--hours", "3")
    rows, _ = read_log(tmp_path / "g" / LOG)
    assert {row["node"] for row in rows if row["type"] == "pub.recv"} == {f"n{n}@192.0.2.{n}" for n in range(1, 6)}
    hours = (max(row["hlc"] for row in rows) - min(row["hlc"] for row in rows)) / (1 << 16) / 3_600_000
    assert 2.4 < hours < 3.6
    expected = json.loads((tmp_path / "g" / EXPECTED).read_text())
    report = judge(rows, complete=False)
    assert report.verdict == "valid"
    assert sorted(each.id for each in report.findings) == sorted(each["id"] for each in expected["findings"])
    assert report.acked > 300


def test_one_topic_and_more_sessions(tmp_path: Path) -> None:
    generate(tmp_path / "g", "--messages", "200", "--one-topic", "1", "--sessions", "7")
    rows, _ = read_log(tmp_path / "g" / LOG)
    assert len({row["topic"] for row in rows if row["type"] == "pub.recv"}) == 1
    assert len({row["client"] for row in rows if row.get("client", "").startswith("absent")}) == 7


def test_which_cases_a_word_means() -> None:
    assert cases_of("") == []
    undone = {"unsubscribe-undone", "unsubscribe-lost-with-the-power"}
    assert set(cases_of("A18")) == undone
    assert set(cases_of("a3, resent")) == {"never-accepted", "no-subscription", "resent"} | undone
    assert set(cases_of("all")) | set(cases_of("near-misses")) == set(CASES)
    assert cases_of("resent,resent") == ["resent"]


def test_hours_change_the_pace_alone() -> None:
    assert size_of(1000, 3, None).pace == 1
    assert size_of(1_000_000, 3, 10).hours == pytest.approx(10)


def test_errors_say_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def trouble(*argv: str, out: str = "") -> str:
        generate(Path(out or tmp_path / "new"), *argv, status=1)
        output = capsys.readouterr()
        assert output.out == ""
        return output.err

    assert "--messages 0: give a number" in trouble("--messages", "0")
    assert "--one-topic 1.5: give a number from 0 to 1" in trouble("--messages", "9", "--one-topic", "1.5")
    assert "--sessions -1: give a number from 0 to" in trouble("--messages", "9", "--sessions", "-1")
    assert "--nodes 2: give a number from 3" in trouble("--messages", "9", "--nodes", "2")
    assert "--hours 0.1: 10000000 messages at 3 nodes take 1.39 to" in trouble(
        "--messages", "10000000", "--hours", "0.1"
    )
    nothing = trouble("--messages", "9", "--plant", "A1,A99")
    assert "--plant A99: there is no such anomaly. Anomalies with cases: A0 A1 A2" in nothing
    assert "stale-route" not in nothing
    (absent, *_) = sorted({*DEFINITIONS} - {each for case in CASES.values() for each in case.anomalies})
    defined = trouble("--messages", "9", "--plant", absent.lower())
    assert f"--plant {absent.lower()}: this anomaly has no case. Anomalies with cases: A0 A1 A2" in defined
    unknown = trouble("--messages", "9", "--plant", "stale")
    assert "--plant stale: there is no such case. Cases: accepted-" in unknown and " stale-route " in unknown
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert "exists already and is not overwritten" in trouble("--messages", "9", out=str(tmp_path / "full"))
    assert "exists already" in trouble("--messages", "9", out=str(tmp_path / "full" / "file"))
    assert "no complete" not in trouble("--messages", "9", out=str(tmp_path / "full" / "file" / "below"))
    assert main(["analytics", "generate", "--out", str(tmp_path / "new")]) == 2
    assert not (tmp_path / "new").exists()

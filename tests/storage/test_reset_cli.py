"""`strogoff reset DIR`: its output and its status."""

from __future__ import annotations

from pathlib import Path

import pytest

from strogoff.cli import main
from strogoff.storage.directory import DataDirectory


def test_reset_prints_the_old_data_and_the_next_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "data"
    DataDirectory(path, "n1", lambda: "id").close()
    assert main(["reset", str(path)]) == 0
    said = capsys.readouterr().out
    assert f"are in {path / 'set-aside-1'}. Start the node" in said
    assert "vmq-admin cluster join discovery-node=NODE" in said
    anew = DataDirectory(path, "n1", lambda: "id")
    assert anew.disk_uuid != "id"
    anew.close()


def test_reset_prints_absolute_paths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reset", "data"]) == 1
    assert f"strogoff reset: {tmp_path}/data is no node's data directory" in capsys.readouterr().err
    DataDirectory(tmp_path / "data", "n1", lambda: "id").close()
    assert main(["reset", "data"]) == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path}/data: empty.")


def test_reset_reports_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reset", str(tmp_path)]) == 1
    assert "strogoff reset: " in capsys.readouterr().err
    directory = DataDirectory(tmp_path / "data", "n1", lambda: "id")
    assert main(["reset", str(tmp_path / "data")]) == 1
    assert "strogoff reset: " in capsys.readouterr().err
    directory.close()

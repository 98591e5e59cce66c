"""`strogoff repair DIR`: its databases, its output, and its status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from strogoff.cli import main
from strogoff.storage import repair_cli
from strogoff.storage.directory import MARKER, DataDirectory
from strogoff.storage.engine import Corrupted
from strogoff.storage.repair import RepairReport, repair

from .contract import END, LevelDBHarness


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A node's data directory with a hundred keys in the database of messages."""
    folder = tmp_path / "data"
    DataDirectory(folder, "node@here", lambda: "id").close()
    harness = LevelDBHarness(folder / "messages", "os")
    harness.open()
    for number in range(100):
        assert harness.write({b"k%03d" % number: bytes(200)}) is None
    harness.engine.close()
    return folder


def log_of(folder: Path) -> Path:
    """The largest log of the messages."""
    return max((folder / "messages").glob("*.log"), key=lambda path: path.stat().st_size)


def test_repair_prints_absolute_paths(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data.parent)
    assert main(["repair", "none"]) == 1
    assert f"strogoff repair: {data.parent}/none holds no database" in capsys.readouterr().err
    assert main(["repair", data.name]) == 0
    assert capsys.readouterr().out.startswith(f"{data}/messages: ")


def test_nothing_is_wrong(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 0, a line for each database."""
    assert main(["repair", str(data)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in said] == [str(data / "messages"), str(data / "meta")]
    assert "100 keys" in said[0]


def test_rebuilding_lists_of_files_loses_nothing(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 0, and the keys are there."""
    (data / "messages" / "CURRENT").unlink()
    assert main(["repair", str(data)]) == 0
    assert json.loads((data / MARKER).read_text())["incomplete"] == 0
    assert "CURRENT" in capsys.readouterr().out
    harness = LevelDBHarness(data / "messages", "os")
    harness.open()
    assert len(harness.engine.keys(b"", END)) == 100
    harness.engine.close()


def test_lost_writes_are_counted(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 3; the damaged file is named and kept aside."""
    log = log_of(data)
    content = bytearray(log.read_bytes())
    content[5000:5100] = bytes(100)
    log.write_bytes(content)
    assert main(["repair", str(data)]) == 3
    assert json.loads((data / MARKER).read_text())["incomplete"] == 2, "the next start counts as incomplete"
    said = capsys.readouterr().out
    assert "repaired" in said and "at least 1 writes are lost" in said
    assert f"the damaged files are in lost/: {log.name}" in said
    assert list((data / "messages" / "lost").iterdir())
    assert main(["repair", str(data)]) == 0


def test_an_interrupted_repair_counts_as_a_loss(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one finds no damage any more."""
    log = log_of(data)
    content = bytearray(log.read_bytes())
    content[5000:5100] = bytes(100)
    log.write_bytes(content)

    def killed_after_the_first(folder: Path, **arguments: Any) -> RepairReport:
        if folder.name == "meta":
            raise OSError("killed")
        return repair(folder, **arguments)

    with monkeypatch.context() as patched:
        patched.setattr(repair_cli, "repair", killed_after_the_first)
        assert main(["repair", str(data)]) == 1
    assert main(["repair", str(data)]) == 0
    assert json.loads((data / MARKER).read_text())["incomplete"] == 2


@pytest.mark.parametrize("name", ["messages", "meta"])
def test_a_loss_in_meta_advises_to_join_again(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The node may have voted or acknowledged an entry (H-01: the repair dropped keys)."""
    folder = tmp_path / "data"
    DataDirectory(folder, "node@here", lambda: "id").close()
    harness = LevelDBHarness(folder / name, "sync")
    harness.open()
    for number in range(100):
        assert harness.write({b"Re%06d" % number: b"x" * 200}) is None
    harness.engine.close()
    log = max((folder / name).glob("*.log"), key=lambda path: path.stat().st_size)
    content = bytearray(log.read_bytes())
    content[5000:5100] = bytes(100)
    log.write_bytes(content)
    assert main(["repair", str(folder)]) == 3
    assert ("let the node join again with an empty one" in capsys.readouterr().out) is (name == "meta")


def test_impossible_repairs_and_resets(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is no database, or a node uses it: status 1 and one line."""
    assert main(["repair", str(tmp_path / "nothing")]) == 1
    assert capsys.readouterr().err == f"strogoff repair: {tmp_path / 'nothing'} holds no database of a node\n"
    harness = LevelDBHarness(data / "messages", "os")
    harness.open()
    assert main(["repair", str(data)]) == 1
    assert "is in use" in capsys.readouterr().err
    harness.engine.close()


def test_databases_of_a_running_node_are_not_repaired(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The lock of the data directory is checked before any database."""
    node = DataDirectory(data, "node@here", lambda: "id")
    assert main(["repair", str(data)]) == 1
    assert "is in use" in capsys.readouterr().err
    node.close()
    assert main(["repair", str(data)]) == 0


@pytest.mark.parametrize("what", ["folder", "content", "content but the marker", "log"])
def test_an_emptied_database_is_reported_as_damaged(data: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    """The result is never "no damage" and never "without loss"."""
    messages = data / "messages"
    for place in messages.iterdir():
        if what == "log" and place.suffix != ".log":
            continue
        if what != "content but the marker" or place.name != "strogoff.db.json":
            place.unlink()
    if what == "folder":
        messages.rmdir()
    assert main(["repair", str(data)]) in (1, 3)
    said = capsys.readouterr()
    about = [line for line in (said.out + said.err).splitlines() if str(messages) in line]
    assert about and not any("no damage" in line or "without loss" in line for line in about)
    assert any(word in " ".join(about) for word in ("gone", "missing"))


def test_an_emptied_database_does_not_start(data: Path) -> None:
    """LevelDB opens a database without its log, and does not report the loss."""
    log_of(data).unlink()
    harness = LevelDBHarness(data / "messages", "os")
    with pytest.raises(Corrupted, match="the log is missing"):
        harness.open()
    assert main(["repair", str(data)]) == 3
    harness.open()
    harness.engine.close()


def test_a_repair_of_an_older_format_leaves_the_format(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The next start converts what the repair kept."""
    marker = data / MARKER
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "format": 1}))
    log = log_of(data)
    log.write_bytes(log.read_bytes()[:-50])
    assert main(["repair", str(data)]) in (0, 3)
    assert "keys" in capsys.readouterr().out
    assert json.loads(marker.read_text())["format"] == 1

"""Whether there is something to ingest: without Spark. `test_ingest.py` asks it after runs of Spark."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from strogoff.analytics.event_lines import TORN
from strogoff.analytics.ingest_report import Report, earlier, up_to_date
from strogoff.analytics.log_sources import find
from strogoff.analytics.manifest import EVENTS, SCRATCH, Entry, Manifest, Unusable, commit, load, locked
from strogoff.analytics.schema import SESSION

from .logs import LoggedNode


def logged(directory: Path) -> Path:
    node = LoggedNode("n1", random.Random(3))
    node.live(20, SESSION, crash=False)
    node.write(directory, size=2000)
    return directory


def ingested(log: Path, out: Path, damaged: bool = False) -> None:
    """A manifest as an ingest writes it, without rows."""
    entries = {
        each.file: Entry(each.suffix, each.disk_bytes, each.mtime_ns, 1, 1, "", damaged) for each in find(log).sources
    }
    out.mkdir(exist_ok=True)
    commit(out, Manifest(generation=1, sources=entries))


def test_a_file_that_is_new_or_has_grown_is_something_to_read(tmp_path: Path) -> None:
    log, out = logged(tmp_path / "log"), tmp_path / "out"
    assert up_to_date(log, out) is None
    ingested(log, out)
    number = len(find(log).sources)
    assert up_to_date(log, out) == Report(unchanged=number)
    path = next(log.rglob("*.jsonl"))
    path.write_bytes(path.read_bytes() + b"\n")
    assert up_to_date(log, out) is None


def test_what_is_not_understood_is_said_again(tmp_path: Path) -> None:
    log, out = logged(tmp_path / "log"), tmp_path / "out"
    (log / "stranger").touch()
    ingested(log, out, damaged=True)
    found = up_to_date(log, out)
    assert found is not None and not found.understood
    assert found.strangers == ["stranger"] and len(found.damaged) == found.unchanged > 1
    assert Report(rejects={TORN: 2}).understood  # type: ignore[arg-type]


def test_files_that_were_not_read_are_known_to_readers_of_the_tables(tmp_path: Path) -> None:
    """Readers learn what the last run did not read. A file that was deleted before that run is not named any more."""
    log, out = logged(tmp_path / "log"), tmp_path / "out"
    ingested(log, out, damaged=True)
    assert not earlier(out, load(out)).strangers
    (log / "stranger").touch()
    said = up_to_date(log, out)
    assert said is not None
    found = earlier(out, load(out))
    assert (found.strangers, found.damaged) == (said.strangers, said.damaged) and not found.understood
    assert not (out / SCRATCH).exists()
    (log / "stranger").unlink()
    assert up_to_date(log, out) is not None and earlier(out, load(out)).strangers == []
    commit(out, replace(load(out), changed=["a"]))
    assert earlier(out, load(out)).changed == ["a"]


def test_leftovers_of_a_kill_are_deleted(tmp_path: Path) -> None:
    log, out = logged(tmp_path / "log"), tmp_path / "out"
    ingested(log, out)
    for name in (f"{EVENTS}/date=2026-03-01/left.parquet", f"{SCRATCH}/left"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).touch()
    assert up_to_date(log, out) is not None
    assert not any((out / EVENTS).iterdir()) and not (out / SCRATCH).exists()


def test_unusable_directories(tmp_path: Path) -> None:
    log = logged(tmp_path / "log")
    with pytest.raises(Unusable, match="in the directory of the log"):
        up_to_date(log, log / "out")
    with locked(tmp_path / "out"), pytest.raises(Unusable, match="another ingest"):
        up_to_date(log, tmp_path / "out")


def test_the_command_answers_without_spark(tmp_path: Path) -> None:
    """In a process of its own, which says whether it has loaded Spark."""
    log, out = logged(tmp_path / "log"), tmp_path / "out"
    ingested(log, out)
    code = (
        "import sys; from strogoff.cli import main;"
        "status = main(['analytics', 'ingest', *sys.argv[1:], '--format', 'json']);"
        "sys.exit(status or 9 * ('pyspark' in sys.modules))"
    )
    command = [sys.executable, "-c", code, str(log), "--out", str(out)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout)["unchanged"] == len(find(log).sources)

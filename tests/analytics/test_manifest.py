"""The manifest: one step to a new one, one writer, and no file that it does not name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from strogoff.analytics.manifest import Entry, Manifest, Unusable, commit, load, locked, place, sweep

ENTRY = Entry(suffix=".gz", disk_bytes=10, mtime_ns=7, size=99, lines=3, digest="d")


def table_file(out: Path, name: str) -> str:
    path = out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(name)
    return name


def names(out: Path) -> list[str]:
    return sorted(str(path.relative_to(out)) for path in out.rglob("*"))


def test_a_manifest_comes_back(tmp_path: Path) -> None:
    assert load(tmp_path) == Manifest()
    name = table_file(tmp_path, "events/date=2026-03-01/hour=12/1.parquet")
    written = Manifest(generation=3, sources={"a": ENTRY}, tables={"events": [name]})
    commit(tmp_path, written)
    assert load(tmp_path) == written
    commit(tmp_path, Manifest(generation=4))
    assert load(tmp_path).generation == 4


def test_a_manifest_that_was_not_whole_has_no_effect(tmp_path: Path) -> None:
    commit(tmp_path, Manifest(generation=3))
    (tmp_path / "_scratch" / "manifest.json").write_text('{"version":1,"gen')
    assert load(tmp_path).generation == 3


def test_what_no_manifest_names_is_deleted(tmp_path: Path) -> None:
    old = table_file(tmp_path, "events/date=2026-03-01/hour=12/1.parquet")
    table_file(tmp_path, "events/date=2026-03-01/hour=12/2.parquet")
    table_file(tmp_path, "events/date=2026-03-01/hour=13/1.parquet")
    table_file(tmp_path, "rejects/1.parquet")
    table_file(tmp_path, "_scratch/x/part-0")
    manifest = Manifest(tables={"events": [old]})
    commit(tmp_path, manifest)
    sweep(tmp_path, manifest)
    kept = ["date=2026-03-01", "date=2026-03-01/hour=12", "date=2026-03-01/hour=12/1.parquet"]
    assert names(tmp_path) == ["events", *(f"events/{each}" for each in kept), "manifest.json", "rejects"]


def test_a_file_gets_its_place(tmp_path: Path) -> None:
    written = tmp_path / table_file(tmp_path, "_scratch/part-0")
    place(tmp_path, written, "events/date=x/1.parquet")
    assert (tmp_path / "events/date=x/1.parquet").read_text() == "_scratch/part-0"
    assert not written.exists()


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(Unusable, match=r"has no manifest.json, but 'letters.txt'"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"version":99,"more":1}', "version 99 is of a newer Strogoff"),
        ('{"version":1,"sources":[]}', "cannot be read"),
        ("no json", "cannot be read"),
    ],
)
def test_another_manifest_is_refused(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(Unusable, match=words):
        load(tmp_path)


HOLD = """
import sys
from pathlib import Path
from strogoff.analytics.manifest import locked
with locked(Path(sys.argv[1])):
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_there_is_one_writer_and_a_kill_ends_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        with pytest.raises(Unusable, match="another ingest writes there now"), locked(tmp_path / "out"):
            pass
        other.kill()
    with locked(tmp_path / "out"):
        assert (tmp_path / "out").is_dir()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "out"
    with pytest.raises(Unusable, match=f"{out} cannot be written: Not a directory; give another"), locked(out):
        raise AssertionError("it was locked")

"""Sources by the names of files, through all names that the broker gives them."""

from __future__ import annotations

from pathlib import Path

from strogoff.analytics.log_sources import find


def file(path: Path, content: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_a_source_keeps_its_name_while_the_broker_renames_the_file(tmp_path: Path) -> None:
    name = "date=2026-03-01/hour=12/node=a%20b/boot=1-000001.jsonl"
    path = file(tmp_path / f"{name}.open", "line\n")
    (source,) = find(tmp_path).sources
    assert (source.file, source.suffix, source.disk_bytes, source.complete) == (name, ".open", 5, False)
    assert source.mtime_ns == path.stat().st_mtime_ns
    path.rename(tmp_path / name)
    (source,) = find(tmp_path).sources
    assert (source.file, source.suffix, source.complete) == (name, "", True)
    (tmp_path / name).rename(tmp_path / f"{name}.gz")
    (source,) = find(tmp_path).sources
    assert (source.file, source.suffix, source.complete) == (name, ".gz", True)


def test_a_file_and_its_compressed_copy_are_one_source(tmp_path: Path) -> None:
    file(tmp_path / "boot=1-000001.jsonl", "plain")
    file(tmp_path / "boot=1-000001.jsonl.gz", "packed")
    assert [(each.file, each.suffix) for each in find(tmp_path).sources] == [("boot=1-000001.jsonl", ".gz")]


def test_sources_are_sorted_by_name(tmp_path: Path) -> None:
    for name in ("hour=12/boot=1-000001.jsonl", "hour=11/boot=2-000001.jsonl.open", "hour=11/boot=1-000001.jsonl.gz"):
        file(tmp_path / name)
    files = [each.file for each in find(tmp_path).sources]
    assert files == ["hour=11/boot=1-000001.jsonl", "hour=11/boot=2-000001.jsonl", "hour=12/boot=1-000001.jsonl"]


def test_every_other_file_is_a_stranger_but_those_of_the_writer(tmp_path: Path) -> None:
    for name in ("boot=1-000001.jsonl.gz.part", "0123456789abcdef0123456789abcdef.ring"):
        file(tmp_path / name)
    strangers = ["boot=1-000001.jsonl.bak", "boot=1-000001.jsonl.zst", "deep/er/notes.txt", "xboot=1-1.jsonl"]
    for name in strangers:
        file(tmp_path / name)
    found = find(tmp_path)
    assert list(found.strangers) == strangers
    assert list(found.sources) == []

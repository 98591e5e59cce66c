"""Compression of complete files: nothing is lost or twice, whenever it ends."""

from __future__ import annotations

import gzip
import os
import threading
import zlib
from pathlib import Path

import pytest

from strogoff.broker.process.eventlog_packing import Packer

CONTENT = b"".join(b'["node.stop",%d,65536,5]\n' % number for number in range(40_000))


def packed(*paths: Path) -> None:
    """Let a packer compress these files to the end."""
    packer = Packer()
    for path in paths:
        packer.add(path)
    packer._due.put(None)
    assert packer._thread is not None
    packer._thread.join(20)
    assert not packer._thread.is_alive()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_file_is_replaced_by_its_compressed_one(tmp_path: Path) -> None:
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path in paths:
        path.write_bytes(CONTENT)
    packed(*paths)
    assert names(tmp_path) == ["a.jsonl.gz", "b.jsonl.gz"]
    assert all(gzip.decompress(path.read_bytes()) == CONTENT for path in tmp_path.iterdir())


def test_the_file_stays_until_the_compressed_one_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(CONTENT)
    seen: list[list[str]] = []
    monkeypatch.setattr(os, "fsync", lambda handle: seen.append(names(tmp_path)))
    packed(path)
    assert seen == [["a.jsonl", "a.jsonl.gz.part"]]


def test_what_a_kill_has_left_is_finished(tmp_path: Path) -> None:
    """Before the rename a part is left, which is begun again; after it the compressed file is whole."""
    before, after = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    before.write_bytes(CONTENT)
    (tmp_path / "a.jsonl.gz.part").write_bytes(b"half")
    after.write_bytes(CONTENT)
    whole = gzip.compress(CONTENT, 1)
    (tmp_path / "b.jsonl.gz").write_bytes(whole)
    packed(before, after)
    assert names(tmp_path) == ["a.jsonl.gz", "b.jsonl.gz"]
    assert gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()) == CONTENT
    assert (tmp_path / "b.jsonl.gz").read_bytes() == whole


def test_a_disk_without_space_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "a.jsonl"
    path.write_bytes(CONTENT)
    monkeypatch.setattr(os, "fsync", full)
    packed(path, tmp_path / "deleted.jsonl")
    assert names(tmp_path) == ["a.jsonl"]


def test_the_end_of_the_log_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file in work stays as it is, and no other is begun."""
    reached, go_on = threading.Event(), threading.Event()

    class Slow:
        def compress(self, chunk: bytes) -> bytes:
            reached.set()
            assert go_on.wait(10)
            return b""

    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path in paths:
        path.write_bytes(CONTENT)
    monkeypatch.setattr(zlib, "compressobj", lambda *arguments: Slow())
    packer = Packer()
    for path in paths:
        packer.add(path)
    assert reached.wait(10)
    packer.close()
    go_on.set()
    assert packer._thread is not None
    packer._thread.join(10)
    assert not packer._thread.is_alive()
    assert {"a.jsonl", "b.jsonl"} <= {*names(tmp_path)} <= {"a.jsonl", "a.jsonl.gz.part", "b.jsonl"}

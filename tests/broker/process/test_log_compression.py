"""Old files of the log, compressed while the log goes on."""

from __future__ import annotations

import gzip
import logging
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from strogoff.broker.process.logs import log_line, set_up
from strogoff.configs import load

from .test_logs import await_compression

LINES = 40
copied = shutil.copyfileobj


@pytest.fixture(params=["console.log", "of [this] node*.log"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    yield tmp_path / request.param
    await_compression()
    logging.getLogger("strogoff").handlers.clear()


def log(path: Path) -> logging.Logger:
    more = {"size": "1KB", "keep": "20", "compress_on_rotate": "on"}
    rotation = {f"log.console.rotation.{name}": value for name, value in more.items()}
    return set_up(load(None, {}, {"log.console.file": str(path), "log.error": "off", **rotation}))


def write(logger: logging.Logger, first: int = 0) -> None:
    for number in range(first, first + LINES):
        log_line(logger, "info", f"line {number} " + "x" * 40)


def old_files(path: Path) -> list[Path]:
    return [each for each in path.parent.iterdir() if each != path]


def kept(path: Path) -> str:
    """The whole log, as `zcat -f` prints it."""
    found = [each.read_bytes() for each in path.parent.iterdir()]
    return b"".join(gzip.decompress(each) if each.startswith(b"\x1f\x8b") else each for each in found).decode()


def test_the_log_does_not_wait_for_compression(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files get other names while one of them is compressed: each has its own lines in the end, compressed."""
    go_on = threading.Event()

    def slowly(*files: object) -> None:
        go_on.wait(10)
        copied(*files)  # type: ignore[arg-type]

    monkeypatch.setattr(shutil, "copyfileobj", slowly)
    write(log(path))
    assert len(old_files(path)) > 3, "one of them may be the part that is under way"
    assert all(f"line {number} " in kept(path) for number in range(LINES))
    go_on.set()
    await_compression()
    assert all(each.read_bytes().startswith(b"\x1f\x8b") for each in old_files(path))
    assert sorted(kept(path).count(f"line {number} ") for number in range(LINES)) == [1] * LINES
    newest = path.with_name(f"{path.name}.1.gz")
    oldest = max(old_files(path), key=lambda each: int(each.name.split(".")[-2]))
    assert b"line 0 " in gzip.decompress(oldest.read_bytes()) and b"line 0 " not in gzip.decompress(newest.read_bytes())


def test_a_file_that_is_pushed_out_meanwhile_does_not_come_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly(*files: object) -> None:
        begun.set()
        go_on.wait(10)
        copied(*files)  # type: ignore[arg-type]

    monkeypatch.setattr(shutil, "copyfileobj", slowly)
    logger = log(path)
    handler = logger.handlers[0]
    handler.backupCount = 1  # type: ignore[attr-defined]
    write(logger)
    assert begun.wait(10)
    write(logger, LINES)
    go_on.set()
    await_compression()
    assert [each.name for each in old_files(path)] == [f"{path.name}.1.gz"]
    assert "line 0 " not in kept(path) and f"line {2 * LINES - 1} " in kept(path)


def test_what_an_earlier_process_left_is_compressed_with_the_next_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended while it compressed, or its disk was full."""

    def no_space(*_files: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfileobj", no_space)
        write(log(path))
        await_compression()
    assert not any(each.read_bytes().startswith(b"\x1f\x8b") for each in old_files(path))
    path.with_name(f"{path.name}.gz.part").write_text("half of a file")
    write(log(path), LINES)
    await_compression()
    assert all(each.read_bytes().startswith(b"\x1f\x8b") for each in old_files(path))
    assert all(f"line {number} " in kept(path) for number in range(2 * LINES))

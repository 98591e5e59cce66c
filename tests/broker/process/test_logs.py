"""The log of the daemon with the settings `log.*` of vernemq.conf."""

from __future__ import annotations

import errno
import gzip
import json
import logging
import os
import shutil
import stat
import sys
import threading
from datetime import datetime
from pathlib import Path

import pytest

from strogoff.broker.process import logs
from strogoff.broker.process.log_compression import THREAD
from strogoff.broker.process.logs import complain, follow_files, is_journal, log_line, set_up
from strogoff.broker.reporting.log_line import Line
from strogoff.configs import load


def await_compression() -> None:
    """Wait until the old files of the log are compressed."""
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join(10)


def test_the_console_and_its_level(capsys: pytest.CaptureFixture[str]) -> None:
    logger = set_up(load(None, {}, {"log.console": "console", "log.console.level": "notice"}))
    log_line(logger, "info", "not this")
    log_line(logger, "notice", "this")
    assert capsys.readouterr().out.endswith("[NOTICE] this\n")


def test_errors_have_their_own_file(tmp_path: Path) -> None:
    console, errors = tmp_path / "log" / "console.log", tmp_path / "log" / "error.log"
    logger = set_up(load(None, {}, {"log.console.file": str(console), "log.error.file": str(errors)}))
    log_line(logger, "info", "all is well")
    log_line(logger, "error", "something broke")
    lines = console.read_text().splitlines()
    assert [line.split("] ")[1] for line in lines] == ["all is well", "something broke"]
    assert errors.read_text().endswith("[ERROR] something broke\n")


def test_a_line_that_cannot_be_written_goes_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Before, each line gave a traceback of twenty lines."""
    logger = set_up(load(None, {}, {"log.console.file": "/dev/full", "log.error": "off"}))
    log_line(logger, "info", "listening")
    assert capsys.readouterr().err == "/dev/full: [Errno 28] No space left on device: listening\n"
    logger.handlers.clear()


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    overrides = {"log.console.file": str(path), "log.console.file.format": "json", "log.error": "off"}
    log_line(set_up(load(None, {}, overrides)), "warning", 'a "quoted" line')
    log_line(logging.getLogger("strogoff"), "info", Line("conn.refuse", "CONNECT refused", client_id="c\n1", code=5))
    plain, refused = map(json.loads, path.read_text().splitlines())
    assert (plain["level"], plain["event"], plain["msg"]) == ("warning", "log", 'a "quoted" line')
    assert (refused["event"], refused["msg"]) == ("conn.refuse", "CONNECT refused")
    assert (refused["client_id"], refused["code"], refused["node"]) == ("c\n1", 5, "VerneMQ@127.0.0.1")
    assert datetime.fromisoformat(refused["time"]).tzinfo is not None


def test_a_line_of_text_has_time_with_zone_node_level_and_event(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    overrides = {"log.console.file": str(path), "log.error": "off", "nodename": "n1@10.0.0.1"}
    log_line(
        set_up(load(None, {}, overrides)), "warning", Line("conn.refuse", "CONNECT refused", client_id="c", code=5)
    )
    when, _, rest = path.read_text().partition(" ")
    assert datetime.fromisoformat(when).utcoffset() is not None
    assert rest == "n1@10.0.0.1 [WARNING] conn.refuse: CONNECT refused client_id=c code=5\n"


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_line_forges_another(tmp_path: Path, form: str) -> None:
    """A line with words of a client in it, and a line with a traceback, are each one line."""
    path = tmp_path / "console.log"
    logger = set_up(
        load(None, {}, {"log.console.file": str(path), "log.console.file.format": form, "log.error": "off"})
    )
    hostile = "c\n2026-01-01 n1 [ERROR] forged\r\x1b[2J\u2028x"
    log_line(logger, "info", f"{hostile}: TLS handshake failed")
    log_line(logger, "info", Line("conn.refuse", "CONNECT refused", client_id=hostile))
    try:
        raise ValueError(hostile)
    except ValueError:
        logger.exception("a plugin failed")
    text = path.read_text()
    assert len(text.splitlines()) == 3 and text.replace("\n", "").isprintable()
    assert "forged" in text and "Traceback" in text


def test_files_are_for_the_owner_and_its_group(tmp_path: Path) -> None:
    """Log files name clients, users and addresses: only owner and group may read them, rotated ones too."""
    for compress in ("off", "on"):
        folder = tmp_path / compress
        overrides = {
            "log.console.file": str(folder / "console.log"),
            "log.error.file": str(folder / "error.log"),
            "log.console.rotation.size": "1KB",
            "log.console.rotation.compress_on_rotate": compress,
        }
        before = os.umask(0)
        try:
            logger = set_up(load(None, {}, overrides))
            for number in range(30):
                log_line(logger, "error", f"line {number} " + "x" * 100)
        finally:
            os.umask(before)
        assert len(list(folder.iterdir())) > 3
        assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o640}


def test_files_are_rotated_unless_rotation_is_off() -> None:
    settings = load(None, {}, {})
    for name in ("console", "error"):
        assert settings[f"log.{name}.rotation.size"] == 64 * 1024 * 1024 and settings[f"log.{name}.rotation.keep"] == 5
    settings = load(None, {}, {"log.console.rotation.size": "infinity"})
    assert settings["log.console.rotation.size"] is None


def test_rotation_by_size_compressed(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    overrides = {
        "log.console.file": str(path),
        "log.console.rotation.size": "1KB",
        "log.console.rotation.keep": "2",
        "log.console.rotation.compress_on_rotate": "on",
        "log.error": "off",
    }
    logger = set_up(load(None, {}, overrides))
    for number in range(100):
        log_line(logger, "info", f"line {number} " + "x" * 40)
    await_compression()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["console.log", "console.log.1.gz", "console.log.2.gz"]
    with gzip.open(tmp_path / "console.log.1.gz", "rt") as packed:
        assert "[INFO] line" in packed.read()


@pytest.mark.parametrize("compress", ["on", "off"])
def test_without_old_files_the_log_begins_anew(tmp_path: Path, compress: str) -> None:
    """`keep = 0`: before, the file grew without bound."""
    path = tmp_path / "console.log"
    overrides = {
        "log.console.file": str(path),
        "log.console.rotation.size": "1KB",
        "log.console.rotation.keep": "0",
        "log.console.rotation.compress_on_rotate": compress,
        "log.error": "off",
    }
    for first in (0, 100):
        logger = set_up(load(None, {}, overrides))
        for number in range(first, first + 100):
            log_line(logger, "info", f"line {number} " + "x" * 40)
            assert path.stat().st_size <= 1024
        await_compression()
        assert f"line {first + 99} " in path.read_text() and "\0" not in path.read_text()
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_does_not_cost_the_rotated_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressing needs space. Before, each line rotated again, until all rotated files were empty ones."""
    path = tmp_path / "console.log"
    overrides = {
        "log.console.file": str(path),
        "log.console.rotation.size": "1KB",
        "log.console.rotation.keep": "3",
        "log.console.rotation.compress_on_rotate": "on",
        "log.error": "off",
    }
    logger = set_up(load(None, {}, overrides))

    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", no_space)
    for number in range(20):
        log_line(logger, "info", f"line {number} " + "x" * 40)
    await_compression()
    kept = "".join(each.read_text() for each in tmp_path.iterdir())
    assert [number for number in range(20) if f"line {number} " not in kept] == []
    assert len(list(tmp_path.iterdir())) > 1


def file_logger(path: Path, monkeypatch: pytest.MonkeyPatch, every_s: float = 0) -> logging.Logger:
    """A logger that looks whether its file has its name, `every_s` seconds after the last look."""
    monkeypatch.setattr(logs, "LOOK_S", every_s)
    return set_up(load(None, {}, {"log.console.file": str(path), "log.error": "off"}))


@pytest.mark.parametrize("new", ["none", "empty"])
def test_lines_go_to_a_new_file_when_another_program_has_moved_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: str
) -> None:
    """logrotate moves it, and makes an empty one with `create`."""
    path, moved = tmp_path / "console.log", tmp_path / "console.log-20260101"
    logger = file_logger(path, monkeypatch)
    log_line(logger, "info", "before")
    path.rename(moved)
    if new == "empty":
        path.touch()
    log_line(logger, "info", "after")
    log_line(logger, "info", "later")
    assert [line.partition("] ")[2] for line in moved.read_text().splitlines()] == ["before"]
    assert [line.partition("] ")[2] for line in path.read_text().splitlines()] == ["after", "later"]
    assert new == "empty" or path.stat().st_mode & 0o137 == 0
    path.unlink()
    log_line(logger, "info", "the former file is gone")
    assert path.read_text().endswith("the former file is gone\n")


def test_a_log_that_cannot_be_opened_again_loses_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines go to the earlier file and to stderr, until the new file can be opened."""
    path, moved = tmp_path / "console.log", tmp_path / "console.log.1"
    logger = file_logger(path, monkeypatch)
    log_line(logger, "info", "before")
    path.rename(moved)
    path.mkdir()
    follow_files(logger)
    log_line(logger, "info", "meanwhile")
    assert capsys.readouterr().err == f"{path}: [Errno 21] Is a directory: '{path}': meanwhile\n"
    assert moved.read_text().endswith("meanwhile\n")
    path.rmdir()
    log_line(logger, "info", "after")
    assert path.read_text().endswith("after\n") and capsys.readouterr().err == ""


def test_a_log_looks_for_its_file_at_most_once_in_an_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second line comes in the same interval. `follow_files` does not wait for its end."""
    path, moved = tmp_path / "console.log", tmp_path / "console.log.1"
    logger = file_logger(path, monkeypatch, every_s=3600)
    log_line(logger, "info", "before")
    path.rename(moved)
    log_line(logger, "info", "in the same interval")
    assert moved.read_text().endswith("in the same interval\n") and not path.exists()
    follow_files(logger)
    log_line(logger, "info", "after")
    assert path.read_text().endswith("after\n") and "after" not in moved.read_text()


def test_off_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    log_line(set_up(load(None, {}, {"log.console": "off"})), "error", "nobody hears")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_for_the_journal_begin_with_their_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """journald takes the level off. Files of the log have no level in front."""
    settings = load(
        None,
        {},
        {
            "log.console": "both",
            "log.console.level": "debug",
            "log.console.console.format": form,
            "log.console.file": str(tmp_path / "console.log"),
            "log.error": "off",
        },
    )
    levels = {"debug": 7, "info": 6, "notice": 5, "warning": 4, "error": 3, "critical": 2, "emergency": 2}
    with (tmp_path / "journal").open("w+") as journal:
        found = os.fstat(journal.fileno())
        monkeypatch.setattr(sys, "stdout", journal)
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
        logger = set_up(settings)
        for level in levels:
            log_line(logger, level, f"{level} is said")
        logger.log(17, "of a plugin")
        logger.handlers.clear()
    lines = (tmp_path / "journal").read_text().splitlines()
    assert [line[:3] for line in lines] == [f"<{each}>" for each in [*levels.values(), 6]]
    assert lines[2].startswith('<5>{"time"' if form == "json" else "<5>2") and "notice is said" in lines[2]
    assert "<" not in (tmp_path / "console.log").read_text()


def test_only_the_stream_that_leads_to_the_journal_has_levels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shell passes JOURNAL_STREAM on to programs whose output it redirects."""
    with (tmp_path / "journal").open("w+") as journal, (tmp_path / "file").open("w+") as file:
        found = os.fstat(journal.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
        assert is_journal(journal) and not is_journal(file)
        assert not is_journal(sys.stdout), "capsys has no file"
        complain("two\nlines")
        assert capsys.readouterr().err == "two\nlines\n"
        monkeypatch.setattr(sys, "stderr", journal)
        complain("two\nlines")
    assert (tmp_path / "journal").read_text() == "<3>two\n<3>lines\n"
    monkeypatch.delenv("JOURNAL_STREAM")
    with (tmp_path / "journal").open() as journal:
        assert not is_journal(journal)

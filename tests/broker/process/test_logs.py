"""The daemon's log, as `log.*` of vernemq.conf says."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from strogoff.broker.process.logs import log_line, set_up
from strogoff.configs import load


def test_console_and_level(capsys: pytest.CaptureFixture[str]) -> None:
    logger = set_up(load(None, {}, {"log.console": "console", "log.console.level": "notice"}))
    log_line(logger, "info", "not this")
    log_line(logger, "notice", "this")
    assert capsys.readouterr().out.endswith("[NOTICE] this\n")


def test_files_errors_apart(tmp_path: Path) -> None:
    console, errors = tmp_path / "log" / "console.log", tmp_path / "log" / "error.log"
    logger = set_up(load(None, {}, {"log.console.file": str(console), "log.error.file": str(errors)}))
    log_line(logger, "info", "all is well")
    log_line(logger, "error", "something broke")
    assert [line.split("] ")[1] for line in console.read_text().splitlines()] == ["all is well", "something broke"]
    assert errors.read_text().endswith("[ERROR] something broke\n")


def test_a_line_that_the_disk_does_not_take_goes_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """With a traceback of twenty lines for each, before."""
    logger = set_up(load(None, {}, {"log.console.file": "/dev/full", "log.error": "off"}))
    log_line(logger, "info", "listening")
    assert capsys.readouterr().err == "/dev/full: [Errno 28] No space left on device: listening\n"
    logger.handlers.clear()


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    overrides = {"log.console.file": str(path), "log.console.file.format": "json", "log.error": "off"}
    log_line(set_up(load(None, {}, overrides)), "warning", 'a "quoted" line')
    row = json.loads(path.read_text())
    assert (row["level"], row["msg"]) == ("warning", 'a "quoted" line')


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
    assert sorted(each.name for each in tmp_path.iterdir()) == ["console.log", "console.log.1.gz", "console.log.2.gz"]
    with gzip.open(tmp_path / "console.log.1.gz", "rt") as packed:
        assert "[INFO] line" in packed.read()


def test_off_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    log_line(set_up(load(None, {}, {"log.console": "off"})), "error", "nobody hears")
    assert capsys.readouterr() == ("", "")

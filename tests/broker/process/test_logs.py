"""The log of the daemon with the settings `log.*` of vernemq.conf."""

from __future__ import annotations

import gzip
import json
import logging
import os
import stat
from datetime import datetime
from pathlib import Path

import pytest

from strogoff.broker.process.logs import log_line, set_up
from strogoff.broker.reporting.log_line import Line
from strogoff.configs import load


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
    assert sorted(each.name for each in tmp_path.iterdir()) == ["console.log", "console.log.1.gz", "console.log.2.gz"]
    with gzip.open(tmp_path / "console.log.1.gz", "rt") as packed:
        assert "[INFO] line" in packed.read()


def test_off_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    log_line(set_up(load(None, {}, {"log.console": "off"})), "error", "nobody hears")
    assert capsys.readouterr() == ("", "")

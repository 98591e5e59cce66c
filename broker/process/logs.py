"""The daemon's log: `log.console` and its relatives of vernemq.conf on Python's logging."""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import suppress
from datetime import datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, TextIO

from ..reporting.log_line import Line, escape
from .log_compression import private, rename_and_compress, renaming

NOTICE = 25
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": NOTICE,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}


_JOURNAL = {"DEBUG": 7, "INFO": 6, "NOTICE": 5, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}
"""Levels of the journal (sd-daemon(3))."""


class _Formatter(logging.Formatter):
    """Each record is one line: line ends in a client's name are escaped, so they cannot forge another line."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self.node = node

    def when(self, record: logging.LogRecord) -> str:
        """Local time with milliseconds and its offset to UTC."""
        return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")

    def said(self, record: logging.LogRecord) -> str:
        """The message, with the traceback behind it if there is one."""
        text = record.getMessage()
        return f"{text}: {self.formatException(record.exc_info)}" if record.exc_info else text


class _Text(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = record.msg
        event = f"{line.event}: " if isinstance(line, Line) else ""
        return f"{self.when(record)} {self.node} [{record.levelname}] {event}{escape(self.said(record))}"


class _Json(_Formatter):
    """Every row has time, level, node, event and msg; the fields of a `Line` stand beside them."""

    def format(self, record: logging.LogRecord) -> str:
        line = record.msg
        event, text, fields = "log", "", {}
        if isinstance(line, Line):
            event, text, fields = line.event, line.text, line.fields
        row = {
            **fields,
            "time": self.when(record),
            "level": record.levelname.lower(),
            "node": self.node,
            "event": event,
            "msg": text or self.said(record),
        }
        return json.dumps(row)


class _Journal(logging.Formatter):
    """Another formatter's lines with the level in front, as journald reads it: `<4>...`."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        return f"<{_JOURNAL.get(record.levelname, 6)}>{self._inner.format(record)}"


def is_journal(stream: TextIO) -> bool:
    """Whether a standard stream leads to journald, which then says so in `JOURNAL_STREAM`: device and inode."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):  # no file behind it
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def complain(text: str) -> None:
    """Print what prevents the start to stderr; in the journal each of its lines is an error."""
    mark = f"<{_JOURNAL['ERROR']}>" if is_journal(sys.stderr) else ""
    print("\n".join([mark + line for line in text.splitlines()]), file=sys.stderr)


LOOK_S = 1.0
"""How often a log file looks whether it still has its name, in seconds. It looks only when it gets a line."""


class _File(RotatingFileHandler):
    """A log file. If a line cannot be written, it goes to stderr, without a traceback.

    If another program has moved or deleted the file, as logrotate does, the lines go to a new file with its name. Only
    owner and group may read the files, because they contain client ids, users and addresses.
    """

    _looked_s = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """logging: write a line. If the file cannot be opened again, the line goes to the earlier one and to stderr."""
        if abs(record.created - self._looked_s) >= LOOK_S:
            self._looked_s = record.created
            try:
                self.follow()
            except OSError:
                self.handleError(record)
        super().emit(record)

    def follow(self) -> None:
        """Open the file again if it was moved or deleted. OSError if that fails; then the earlier file stays open."""
        if self.stream is None or self._has_its_name(self.stream):
            return
        fresh = self._open()
        self.stream.close()
        self.stream = fresh

    def _has_its_name(self, stream: TextIOWrapper) -> bool:
        try:
            return os.path.samestat(os.stat(self.baseFilename), os.fstat(stream.fileno()))
        except FileNotFoundError:
            return False

    def doRollover(self) -> None:  # noqa: N802
        """logging: begin a new file. The old one gets the name of the first old file; without any it is emptied."""
        if self.backupCount == 0 and self.stream is not None:
            os.ftruncate(self.stream.fileno(), 0)
            return
        with renaming:
            super().doRollover()

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, self.mode, encoding="utf-8", opener=private)  # type: ignore[return-value]

    def handleError(self, record: logging.LogRecord) -> None:
        """logging: writing a line has raised an error. Print the line to stderr."""
        if sys.stderr is not None:
            with suppress(OSError):
                print(f"{self.baseFilename}: {sys.exc_info()[1]}: {escape(record.getMessage())}", file=sys.stderr)


def _formatter(settings: Any, kind: str) -> logging.Formatter:
    return (_Json if kind == "json" else _Text)(str(settings["nodename"]))


def _file(settings: Any, prefix: str) -> logging.Handler:
    path = Path(settings[f"{prefix}.file"])
    path.parent.mkdir(parents=True, exist_ok=True)
    size = settings[f"{prefix}.rotation.size"] or 0
    handler = _File(path, maxBytes=size, backupCount=settings[f"{prefix}.rotation.keep"])
    if settings[f"{prefix}.rotation.compress_on_rotate"]:
        handler.namer = lambda name: name + ".gz"
        handler.rotator = rename_and_compress
    handler.setFormatter(_formatter(settings, settings[f"{prefix}.file.format"]))
    return handler


def set_up(settings: Any) -> logging.Logger:
    """The logger `strogoff` as the configuration wants it. OSError if a log file cannot be written."""
    logging.addLevelName(NOTICE, "NOTICE")
    logger = logging.getLogger("strogoff")
    logger.handlers.clear()
    logger.propagate = False
    logger.setLevel(_LEVELS[settings["log.console.level"]])
    where = settings["log.console"]
    if where in ("console", "both"):
        handler: logging.Handler = logging.StreamHandler(sys.stdout)
        formatter = _formatter(settings, settings["log.console.console.format"])
        handler.setFormatter(_Journal(formatter) if is_journal(sys.stdout) else formatter)
        logger.addHandler(handler)
    if where in ("file", "both"):
        logger.addHandler(_file(settings, "log.console"))
        if settings["log.error"]:
            errors = _file(settings, "log.error")
            errors.setLevel(logging.ERROR)
            logger.addHandler(errors)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


def follow_files(logger: logging.Logger) -> None:
    """Open the log files again that were moved or deleted. If one cannot be opened, its next line says so."""
    for handler in logger.handlers:
        if isinstance(handler, _File):
            handler.acquire()
            try:
                with suppress(OSError):
                    handler.follow()
            finally:
                handler.release()


def log_line(logger: logging.Logger, level: str, text: str) -> None:
    """One line at a level of vernemq.conf; a `Line` keeps its fields."""
    logger.log(_LEVELS[level], text)

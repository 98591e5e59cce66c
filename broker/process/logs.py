"""The daemon's log: `log.console` and its relatives of vernemq.conf (INV 1.10) on Python's logging."""

from __future__ import annotations

import gzip
import json
import logging
import os
import shutil
import sys
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

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


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        row = {"time": self.formatTime(record), "level": record.levelname.lower(), "msg": record.getMessage()}
        if record.exc_info:
            row["error"] = self.formatException(record.exc_info)
        return json.dumps(row)


class _File(RotatingFileHandler):
    """A line that the disk does not take goes to the terminal; as a line, not as a traceback with our sources."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Called where writing a line raised."""
        if sys.stderr is not None:
            with suppress(OSError):
                print(f"{self.baseFilename}: {sys.exc_info()[1]}: {record.getMessage()}", file=sys.stderr)


def _formatter(kind: str) -> logging.Formatter:
    if kind == "json":
        return _Json()
    return logging.Formatter("%(asctime)s.%(msecs)03d [%(levelname)s] %(message)s", "%Y-%m-%dT%H:%M:%S")


def _file(settings: Any, prefix: str) -> logging.Handler:
    path = Path(settings[f"{prefix}.file"])
    path.parent.mkdir(parents=True, exist_ok=True)
    size = settings[f"{prefix}.rotation.size"] or 0
    handler = _File(path, maxBytes=size, backupCount=settings[f"{prefix}.rotation.keep"])
    if settings[f"{prefix}.rotation.compress_on_rotate"]:
        handler.namer = lambda name: name + ".gz"
        handler.rotator = _compress
    handler.setFormatter(_formatter(settings[f"{prefix}.file.format"]))
    return handler


def _compress(source: str, target: str) -> None:
    with open(source, "rb") as plain, gzip.open(target, "wb") as packed:
        shutil.copyfileobj(plain, packed)
    os.remove(source)


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
        handler.setFormatter(_formatter(settings["log.console.console.format"]))
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


def log_line(logger: logging.Logger, level: str, text: str) -> None:
    """One line at a level of vernemq.conf."""
    logger.log(_LEVELS[level], text)

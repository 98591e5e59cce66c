"""Errors of jobs that the user can correct."""

from __future__ import annotations

from pathlib import Path

from .log_sources import files_below
from .manifest import NAME


class Trouble(Exception):
    """What is wrong, where, and what to do: a text for the user."""


def check_log(logdir: str) -> None:
    """Raise Trouble if a directory has no event log, and OSError if it cannot be read. It does not check a URL."""
    if "://" in logdir:
        return
    directory = Path(logdir)
    if not directory.exists():
        raise Trouble(f"{logdir}: no such directory")
    if not directory.is_dir():
        raise Trouble(f"{logdir} is a file; give the directory, as in eventlog.dir")
    if not any(path.match("boot=*-*.jsonl*") for path in files_below(directory)):
        raise Trouble(f"{logdir}: no event log in it (no files named boot=*.jsonl). Is eventlog.level = off?")


def check_out(out: str, job: str) -> None:
    """Raise Trouble if `--out` is no directory of this machine, existing or new. `job` is for the text."""
    if "://" in out:
        raise Trouble(f"--out {out}: {job} needs a directory that this machine has, not a URL")
    if Path(out).is_file():
        raise Trouble(f"--out {out} is a file; give a directory")


def check_outside(out: str, logdir: str) -> None:
    """Raise Trouble if `--out` is in the directory of the log: the files there would be strangers in the log."""
    if "://" not in out and "://" not in logdir and Path(out).resolve().is_relative_to(Path(logdir).resolve()):
        raise Trouble(f"--out {out} is in the directory of the log; give another one")


def check_source(source: str, job: str) -> None:
    """Raise Trouble if a directory has neither the tables of an ingest nor an event log. `job` is for the text."""
    if "://" in source:
        raise Trouble(f"{source}: {job} needs a directory that this machine has, not a URL")
    if not (Path(source) / NAME).is_file():
        check_log(source)

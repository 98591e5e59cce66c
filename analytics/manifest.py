"""What an ingest has done: which files of the log it has read, and which files its tables have.

The manifest is one small file. A new one replaces it in one step, after everything that it names is on the disk. So a
kill at any moment leaves the tables of one manifest, and perhaps files that no manifest names. `sweep` deletes these.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

VERSION: Final = 1
NAME: Final = "manifest.json"
LOCK: Final = "ingest.lock"
SCRATCH: Final = "_scratch"
"""Spark writes below this directory. The ingest moves what is whole from there. Readers ignore names with `_`."""

EVENTS: Final = "events"
REJECTS: Final = "rejects"
TABLES: Final = (EVENTS, REJECTS)
FINDINGS: Final = "findings"
"""Where an audit writes. No manifest names it: the next audit replaces it."""


class Entry(msgspec.Struct, frozen=True):
    """A source that was read: its name on the disk then, and the extent of what was read. `damaged`: its compressed
    file breaks off behind that."""

    suffix: str
    disk_bytes: int
    mtime_ns: int
    size: int
    lines: int
    digest: str
    damaged: bool = False


class Manifest(msgspec.Struct, frozen=True):
    """The state of a directory of tables. `tables`: table -> paths of its files below the directory, sorted. The last
    two name files of the log that the last run has not read: by their name, or because they have other content than
    before."""

    version: int = VERSION
    generation: int = 0
    sources: dict[str, Entry] = {}
    tables: dict[str, list[str]] = {}
    strangers: list[str] = []
    changed: list[str] = []

    def files(self, table: str) -> list[str]:
        """The files of a table."""
        return self.tables.get(table, [])


class Unusable(Exception):
    """The directory cannot be used. The text is for the user."""


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Create the directory, and be its only writer. Raises `Unusable` if another process is, or if this one may not
    write there. A kill frees the lock."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / LOCK).open("a")
    except OSError as error:
        raise Unusable(f"{out} cannot be written: {error.strerror}; give another directory") from None
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Unusable(f"{out}: another ingest writes there now; wait until it has ended") from None
        yield


def load(out: Path) -> Manifest:
    """The manifest of a directory; an empty one if there is none. Raises `Unusable` for what is no manifest of ours."""
    path = out / NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        others = [each.name for each in out.iterdir() if each.name not in (LOCK, SCRATCH, FINDINGS, *TABLES)]
        if others:
            raise Unusable(f"{out} has no {NAME}, but {others[0]!r:.60}; give a new or empty directory") from None
        return Manifest()
    try:
        version = msgspec.json.decode(content, type=_Version).version
        if version > VERSION:
            raise Unusable(f"{path}: version {version} is of a newer Strogoff than this one")
        return msgspec.json.decode(content, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unusable(f"{path} cannot be read: {error}") from None


def commit(out: Path, manifest: Manifest) -> None:
    """Make this the manifest, in one step. Its files must have their places already. Raises OSError."""
    folders: set[Path] = set()
    for table in TABLES:
        for name in manifest.files(table):
            folders.update(path for path in (out / name).parents if path.is_relative_to(out))
    for folder in folders:
        _sync(folder)
    fresh = out / SCRATCH / NAME
    fresh.parent.mkdir(exist_ok=True)
    with fresh.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest)))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(out / NAME)
    _sync(out)


def sweep(out: Path, manifest: Manifest) -> None:
    """Delete what the manifest does not name: leftovers of a kill, and files that others have replaced."""
    shutil.rmtree(out / SCRATCH, ignore_errors=True)
    for table in TABLES:
        named = {out / name for name in manifest.files(table)}
        for path in sorted((out / table).rglob("*"), reverse=True):
            if path.is_dir():
                if not any(path.iterdir()):
                    path.rmdir()
            elif path not in named:
                path.unlink()


def place(out: Path, written: Path, name: str) -> None:
    """Move a whole file to its place below the directory, after its content is on the disk."""
    _sync(written)
    target = out / name
    target.parent.mkdir(parents=True, exist_ok=True)
    written.replace(target)


class _Version(msgspec.Struct):
    version: int


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

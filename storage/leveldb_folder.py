"""The folder of a LevelDB database: a lock, and a marker that says whether the database was created.

If its file CURRENT is missing, LevelDB silently creates a new database (in a test 1,680 of 20,000 keys were left). So
it may create one only if the marker says `new`. The marker changes to `made` before the first write.
"""

from __future__ import annotations

import json
from pathlib import Path

from .engine import Corrupted, StorageError, WrongDirectory
from .files import PathLock, make_directory, write_durably

MARKER = "strogoff.db.json"
LOCK = "strogoff.lock"
FORMAT = 1


def prepare(path: Path) -> None:
    """Create a folder for a new database. Raises `WrongDirectory` if the folder has files."""
    make_directory(path)
    strangers = sorted(place.name for place in path.iterdir() if place.name not in (LOCK, MARKER, MARKER + ".new"))
    if strangers:
        raise WrongDirectory(f"{path} has files of another program and no {MARKER}: {', '.join(strangers[:3])}")
    _mark(path, "new")


def is_fresh(path: Path) -> bool:
    """Whether the folder has only the files of `prepare`, so that no database was ever created in it."""
    if was_prepared(path):
        return _state(path) == "new"
    return all(place.name in (LOCK, MARKER + ".new") for place in path.iterdir())


def was_prepared(path: Path) -> bool:
    """Whether the folder has its marker."""
    return (path / MARKER).exists()


class Folder:
    """The folder of a database, locked. Raises `DirectoryInUse`, `WrongDirectory` or `Corrupted`."""

    def __init__(self, path: Path) -> None:
        make_directory(path)
        self.path = path
        self._lock = PathLock(path / LOCK)
        try:
            if not was_prepared(path):
                prepare(path)
            self.is_new = _state(path) == "new"
        except BaseException:
            self._lock.close()
            raise

    def made(self) -> None:
        """Note durably that the database exists. From now on it is opened, never created."""
        if self.is_new:
            _mark(self.path, "made")
            self.is_new = False

    def check(self) -> None:
        """Raise `StorageError` if the folder was removed or replaced since it was locked."""
        if not self._lock.is_in_place():
            raise StorageError(
                f"{self.path} was removed or replaced while the node runs, so new writes would be lost. "
                "Stop the node, put the directory back (from a backup), and start it"
            )

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()


def _mark(path: Path, state: str) -> None:
    write_durably(path / MARKER, json.dumps({"format": FORMAT, "state": state}).encode() + b"\n")


def _state(path: Path) -> str:
    marker = path / MARKER
    try:
        said = json.loads(marker.read_bytes())
        version, state = said["format"], said["state"]
    except (ValueError, KeyError, TypeError):
        raise Corrupted(
            str(marker),
            "unreadable, so it is unknown whether the folder has a database; this alone loses no data",
            f'If there is one, write {{"format": {FORMAT}, "state": "made"}} into it',
        ) from None
    if version != FORMAT:
        raise WrongDirectory(
            f"{marker} has format {version!r}, but this version reads only format {FORMAT}: "
            "use the version that wrote it"
        )
    if state not in ("new", "made"):
        raise WrongDirectory(f"{marker} has the state {state!r}, which this version does not know")
    return str(state)

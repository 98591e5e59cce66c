"""Atomic and durable file writes, and the lock file of a directory."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from .engine import DirectoryInUse


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file. After a crash or a power loss it has either the old or the new content.

    Raises OSError with the name of the file.
    """
    fresh = path.with_name(path.name + ".new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(fresh)) from None
    finally:
        os.close(handle)
    fresh.replace(path)
    sync_directory(path.parent)


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents, durably. An existing directory is no error."""
    missing = [place for place in (path, *path.parents) if not place.exists()]
    path.mkdir(parents=True, exist_ok=True, mode=0o750)
    for place in missing:
        sync_directory(place.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable. Without it a power loss may undo a rename."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_files(folder: Path) -> None:
    """Make the content of all files in a folder durable, and their names. Raises OSError."""
    for path in folder.iterdir():
        if path.is_file():
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    sync_directory(folder)


class PathLock:
    """A lock file with the pid of its owner. The kernel releases the lock when the process ends.

    It uses `flock`, not `lockf`. A lock of `flock` belongs to the open file, so a second open in the same process fails
    too, and closing the second file keeps the lock of the first. LevelDB's own lock is lost in this case.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._owner = os.getpid()
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._handle, 20, 0).strip()
            os.close(self._handle)
            raise DirectoryInUse(str(path.parent), int(owner) if owner.isdigit() else None) from None
        except BaseException:
            os.close(self._handle)
            raise
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, b"%d\n" % self._owner, 0)

    def is_in_place(self) -> bool:
        """Whether the locked file still has its name. False if it or its directory was removed or replaced."""
        if self._handle < 0:
            return True
        try:
            found = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        mine = os.fstat(self._handle)
        return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)

    def close(self) -> None:
        """Release the lock; a second call has no effect. The file stays: its removal would race with the next owner.

        A process that was forked from the owner has the same open file: it would keep the lock without the unlock here.
        Its own `close` releases nothing.
        """
        if self._handle >= 0:
            if os.getpid() == self._owner:
                fcntl.flock(self._handle, fcntl.LOCK_UN)
            os.close(self._handle)
            self._handle = -1

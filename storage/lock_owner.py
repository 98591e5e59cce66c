"""Finds the process that runs a node on a data directory, by the lock file with its pid, and the owner of the data.

The file keeps the pid of a process that has ended, and the number may belong to another process by now. A process in
another container has another number there. So the process counts only if it has the lock file open.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

_MOST_PIDS = 1 << 22
"""The highest pid of Linux."""


class HiddenOwnerError(Exception):
    """A process that this one cannot see has the lock: it runs in another container."""


def open_owner(lock: Path) -> tuple[int, int] | None:
    """The pid of the process that has the lock, and a file descriptor of the process (pidfd); None if there is none.

    The caller closes the descriptor. Raises `PermissionError` if the process or the file belongs to another user, and
    `HiddenOwnerError`.
    """
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        text = os.pread(handle, 20, 0).strip()
        pid = int(text) if text.isdigit() else 0
        try:
            process = _owner(pid, handle)
        except PermissionError:
            if not _is_locked(handle):
                return None
            raise
        if process is not None:
            return pid, process
        if _is_locked(handle):
            raise HiddenOwnerError(pid)
        return None
    finally:
        os.close(handle)


def data_owner(directory: Path) -> os.stat_result | None:
    """Returns who owns the data in a node's data directory; None if the directory does not exist. Root may own the
    directory itself: then the node's user writes in it as a member of its group."""
    known = [path for path in (directory / "lock", directory) if path.exists()]
    return known[0].stat() if known else None


def _owner(pid: int, handle: int) -> int | None:
    """A pidfd of this process, if it has the file of `handle` open. It cannot come to mean another process."""
    if not 0 < pid <= _MOST_PIDS or pid == os.getpid():
        return None
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    try:
        if _has_open(pid, handle):
            return process
    except BaseException:
        os.close(process)
        raise
    os.close(process)
    return None


def _has_open(pid: int, handle: int) -> bool:
    """Whether the process has the file of `handle` open."""
    wanted = os.fstat(handle)
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except (FileNotFoundError, ProcessLookupError):
        return False
    for name in names:
        try:
            found = os.stat(f"/proc/{pid}/fd/{name}")
        except (FileNotFoundError, ProcessLookupError):  # it has closed this one
            continue
        if os.path.samestat(found, wanted):
            return True
    return False


def _is_locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False

"""Compresses old files of the log in a thread: the event loop does not wait for it.

An old file gets its name, `<log>.<number>.gz`, when it is complete, and is still plain text then. Its compressed form
takes the name over as soon as it is complete. If the disk is full or the process ends before that, the next rotation
tries again. `zcat -f` reads both kinds.
"""

from __future__ import annotations

import gzip
import os
import shutil
import threading
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import IO

FILE_MODE = 0o640
"""Permissions of log files, before the umask."""

THREAD = "log gzip"
"""Name of the threads."""

renaming = threading.Lock()
"""Held while files of a log get other names."""

_compressing = threading.Lock()
"""Held by the thread that compresses: the others wait for their turn."""

_BEGIN_OF_GZIP = b"\x1f\x8b"
_LEVEL = 1
"""As in the event log: quick, and little larger than what higher levels make."""


def private(path: str, flags: int) -> int:
    """Open a file that only its owner and group may read."""
    return os.open(path, flags, FILE_MODE)


def rename_and_compress(log: str, target: str) -> None:
    """The complete file `log` is called `target` from now on, and will be compressed."""
    os.replace(log, target)
    threading.Thread(target=_compress_all, args=(Path(log),), name=THREAD, daemon=True).start()


def _compress_all(log: Path) -> None:
    with _compressing:
        for path in _old_files(log):
            with suppress(OSError):  # the disk is full, or a newer file has pushed this one out
                _compress(log, path)


def _old_files(log: Path) -> list[Path]:
    return sorted(log.parent.glob(f"{escape(log.name)}.*.gz"))


def _compress(log: Path, path: Path) -> None:
    part = log.with_name(f"{log.name}.gz.part")
    with path.open("rb") as plain:
        if plain.read(len(_BEGIN_OF_GZIP)) == _BEGIN_OF_GZIP:
            return
        plain.seek(0)
        try:
            with open(part, "wb", opener=private) as file, gzip.open(file, "wb", compresslevel=_LEVEL) as packed:
                shutil.copyfileobj(plain, packed)
            _replace(plain, part, log)
        finally:
            part.unlink(missing_ok=True)


def _replace(plain: IO[bytes], part: Path, log: Path) -> None:
    """Give the compressed file the name that the old file has now."""
    with renaming:
        for path in _old_files(log):
            if os.path.samestat(path.stat(), os.fstat(plain.fileno())):
                part.replace(path)
                return

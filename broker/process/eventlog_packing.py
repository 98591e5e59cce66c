"""Compresses complete files of the event log with gzip, in a thread of its own: neither the loop nor rows wait for it.

`<file>.jsonl` stays until `<file>.jsonl.gz` is complete, on the disk, and has its name; then it is deleted. Until then
the compressed part is `<file>.jsonl.gz.part`, which no reader reads. After a kill the next start hands the `.jsonl` in
again: one that has its `.gz` already is only deleted.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import zlib
from pathlib import Path

PACKED = ".gz"
"""Suffix of a compressed file, behind its name."""

PART = ".gz.part"
"""Suffix of a compressed file that is not complete."""

_LEVEL = 1
"""Level 6 takes 3.4 times as long for files that are 22 % smaller: measured with the log of `make demo`, 10 MB."""

_CHUNK = 256 << 10
_GZIP = 31
"""The `wbits` of zlib for the format of gzip."""

_NICE = 10
"""How much less urgent than the broker the thread is."""


class Packer:
    """Compresses the files that `add` gives it, one after the other. Its thread begins with the first of them."""

    def __init__(self) -> None:
        self._due: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
        self._closed = False
        self._thread: threading.Thread | None = None

    def add(self, path: Path) -> None:
        """Compress this file soon."""
        self._due.put(path)
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="eventlog gzip", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Begin no other file, and leave the one in work. The next start compresses the rest."""
        self._closed = True
        self._due.put(None)

    def _run(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # on Linux each thread has its own priority
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        while (path := self._due.get()) is not None and not self._closed:
            self._pack(path)

    def _pack(self, path: Path) -> None:
        part = path.with_name(path.name + PART)
        try:
            final = path.with_name(path.name + PACKED)
            if not final.exists():
                if not self._compress(path, part):
                    return
                part.rename(final)
            path.unlink()
        except OSError:  # no space, or deleted meanwhile: the file stays as it is, and the next start tries again
            with contextlib.suppress(OSError):
                part.unlink()

    def _compress(self, path: Path, part: Path) -> bool:
        """Returns False if the log was closed before the end."""
        packing = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with path.open("rb") as plain, os.fdopen(os.open(part, flags, 0o640), "wb") as packed:
            while chunk := plain.read(_CHUNK):
                if self._closed:
                    return False
                packed.write(packing.compress(chunk))
            packed.write(packing.flush())
            packed.flush()
            os.fsync(packed.fileno())
        return True

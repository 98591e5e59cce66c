"""Which files an event log has. A source is one file of a writer, whatever name it has at the moment.

The broker calls it `boot=1-000001.jsonl.open`, then `boot=1-000001.jsonl`, then `boot=1-000001.jsonl.gz`. Its content
only grows, and only while it is open. So a source has the middle one of these names, and places in it count bytes
before compression.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

OPEN: Final = ".open"
PACKED: Final = ".gz"
SUFFIXES: Final = (PACKED, "", OPEN)
"""What may follow `.jsonl`. If several are there, the first one is read: it stays longest."""

_NAME = re.compile(r"(boot=[0-9]+-[0-9]+\.jsonl)(|\.open|\.gz)")
_NOT_TO_READ = re.compile(r"boot=[0-9]+-[0-9]+\.jsonl\.gz\.part|[0-9a-f]+\.ring")
"""Files of the broker that hold no rows of their own: half compressed ones, and the memory of the writer."""


class Source(NamedTuple):
    """A file of the log: its lasting name below the log's directory, and what the directory says of it now."""

    file: str
    suffix: str
    disk_bytes: int
    mtime_ns: int

    @property
    def complete(self) -> bool:
        """Whether the writer has ended the file."""
        return self.suffix != OPEN


class Found(NamedTuple):
    """The files below a directory: sources by their names, and paths of files whose names say that they are none."""

    sources: Sequence[Source]
    strangers: Sequence[str]


def files_below(logdir: Path) -> Iterator[Path]:
    """All files below `logdir`, but those of directories that are deleted meanwhile. Raises OSError, also for a
    directory that this user may not read: without it a job would be about a part of the log, and not say so."""

    def failed(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for directory, _, names in os.walk(logdir, onerror=failed):
        yield from (Path(directory, name) for name in names)


def find(logdir: Path) -> Found:
    """All files below `logdir`. A file that is renamed or deleted meanwhile may be missing. Raises OSError, also for a
    file that this user may not read."""
    sources: dict[str, Source] = {}
    strangers = []
    for path in sorted(files_below(logdir)):
        below = path.relative_to(logdir)
        name = _NAME.fullmatch(path.name)
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue
        if name is None:
            if not _NOT_TO_READ.fullmatch(path.name):
                strangers.append(str(below))
            continue
        if not os.access(path, os.R_OK) and path.exists():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        source = Source(str(below.with_name(name[1])), name[2], stat.st_size, stat.st_mtime_ns)
        other = sources.get(source.file)
        if other is None or SUFFIXES.index(source.suffix) < SUFFIXES.index(other.suffix):
            sources[source.file] = source
    return Found([sources[file] for file in sorted(sources)], strangers)

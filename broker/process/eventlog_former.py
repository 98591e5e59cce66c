"""What a start knows of the end of the log of the boot before: for `node.start`, and for the stamps of its own rows.

A kill takes no rows: the ring has those that no file had, and the kernel keeps what was written to files. A loss of
power takes the ring, or a part of its file, and the newest part of the files. So the log is whole if the boot was
stopped in order, or if its ring is still there, under the same boot of the kernel. Else rows behind the last one may be
missing, and nobody knows how many. The same is true if the disk had stopped the writer until the ring was full.
"""

from __future__ import annotations

import gzip
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...analytics.event_lines import Header, Reject, Row, decode, read_header
from ...analytics.schema import UNWRITTEN
from .eventlog_files import boot_of
from .eventlog_packing import PACKED
from .eventlog_ring import Rescued

END: Final = 64 << 10
"""Bytes at the end of a file in which its last row is looked for."""


class FormerLog(NamedTuple):
    """The log of the newest boot before this one: the last `seq` that it is known to have used, whether rows behind
    that may be missing, and the stamp of that last row, 0 if unknown. This boot's stamps must be larger: after a loss
    of power its clock begins where it was saved last, which may be a minute before that row."""

    known_seq: int
    tail_lost: bool
    stamp: int = 0

    def fields(self) -> dict[str, Any]:
        """Returns the fields of `node.start`."""
        return {"known_seq": self.known_seq, "tail_lost": self.tail_lost}


def former_log(files: Iterable[Path], left: Rescued | None, kernel: str) -> FormerLog | None:
    """Returns what is known; None if nothing is left of an earlier boot. `files`: those of the newest earlier boot that
    has any, newest first. `left`: what the last process has left in its ring, after it was written to files. `kernel`:
    id of this boot of the kernel, "" if there is none. Raises OSError."""
    files = list(files)
    boot = boot_of(files[0]) if files else 0
    if left is not None and left.boot >= boot and left.last_seq:
        # what is in the files has gone through the ring
        tail_lost = left.crowded or not kernel or left.kernel != kernel
        return FormerLog(left.last_seq, tail_lost, left.last_stamp)
    for path in files:
        row = last_row(path)
        if row is not None:
            return FormerLog(row["seq"], not _is_last(row), row["hlc"])
    return FormerLog(0, True) if files else None


def _is_last(row: Row) -> bool:
    """Whether no row can follow in this boot: the node has stopped, with all on its disk or not."""
    if row["type"] == "node.stop":
        return bool(row.get("reason") != "joined")
    return bool(row["type"] == "store.state" and row["state"] == UNWRITTEN)


def last_row(path: Path) -> Row | None:
    """Returns the last row of a file that can be read; None if there is none near its end. Raises OSError."""
    if path.name.endswith(PACKED):
        with gzip.open(path) as packed:
            first = packed.readline()
            lines = list(deque(packed, 16))
    else:
        with path.open("rb") as file:
            first = file.readline()
            size = file.seek(0, 2)
            file.seek(max(len(first), size - END))
            lines = file.read().splitlines(keepends=True)
    header = read_header(first)
    for line in reversed(lines):
        row = decode(line, header if isinstance(header, Header) else None)
        if not isinstance(row, Reject):
            return row
    return None

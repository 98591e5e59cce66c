"""Writes rows as a broker does: the same folders, names, header lines and rows, complete files compressed.

The broker's own writer (`broker/process/eventlog_files.py`) keeps a running node alive on a disk that is full, slow or
emptied by its operator. This one needs none of that, and raises OSError.
"""

from __future__ import annotations

import gzip
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote

from ..event_lines import Row, header_line, line_of
from ..log_sources import OPEN, PACKED
from ..schema import LOGICAL_BITS

SIZE: Final = 64 << 20
"""Bytes at which a new file begins, before compression."""
_LEVEL: Final = 6
_HOUR_MS: Final = 3_600_000


class LogWriter:
    """Writes logs below a directory. The rows of a node come in their order; a row of a new boot ends the boot before.

    The last file of the last boot of a node is not compressed, and has the name of an open one unless the node stopped.
    """

    def __init__(self, directory: Path, size: int = SIZE) -> None:
        self.rows = 0
        self.files = 0
        self.bytes = 0
        """Of all lines, before compression."""
        self._directory = directory
        self._size = size
        self._boots: dict[str, _Boot] = {}

    def add(self, row: Row) -> None:
        """Write a row. Raises KeyError if the schema lacks its type or a field."""
        node, boot = row["node"], row["boot"]
        writer = self._boots.get(node)
        if writer is None or writer.boot != boot:
            if writer is not None:
                writer.end(pack=True)
            writer = self._boots[node] = _Boot(self, self._directory, node, boot, self._size)
        writer.add(row)
        self.rows += 1

    def close(self) -> None:
        """Close all files."""
        for each in self._boots.values():
            each.end(pack=False)
        self._boots.clear()


class _Boot:
    """The files of one boot. `path` is the one that is being written."""

    def __init__(self, log: LogWriter, directory: Path, node: str, boot: int, size: int) -> None:
        self.boot = boot
        self._log = log
        self._directory = directory
        self._node = node
        self._size = size
        self._part = 0
        self._run = ""
        self._hour = -1
        self._bytes = 0
        self._path = Path()
        self._file: BinaryIO | None = None
        self._stopped = False

    def add(self, row: Row) -> None:
        """Write a row, in a new file if it has another run or hour, or if the file is full."""
        line = line_of(row)
        hour = (row["hlc"] >> LOGICAL_BITS) // _HOUR_MS
        if self._file is None or row["run_id"] != self._run or hour != self._hour or self._full(len(line)):
            self._complete(pack=True)
            self._run, self._hour = row["run_id"], hour
            self._file = self._begin()
        self._write(self._file, line)
        self._stopped = row["type"] == "node.stop"

    def end(self, pack: bool) -> None:
        """No more rows come."""
        if pack or self._stopped:
            self._complete(pack)
        elif self._file is not None:
            self._file.close()

    def _full(self, more: int) -> bool:
        return self._bytes > len(self._header()) and self._bytes + more > self._size

    def _header(self) -> bytes:
        return header_line(self._run, self._node, self.boot)

    def _begin(self) -> BinaryIO:
        when = datetime.fromtimestamp(self._hour * (_HOUR_MS // 1000), UTC)
        folder = self._directory / f"{when:date=%Y-%m-%d}" / f"{when:hour=%H}" / f"node={quote(self._node, safe='@')}"
        folder.mkdir(parents=True, exist_ok=True)
        self._part += 1
        self._path = folder / f"boot={self.boot}-{self._part:06d}.jsonl"
        file = self._path.with_name(self._path.name + OPEN).open("xb")
        self._bytes = 0
        self._write(file, self._header())
        self._log.files += 1
        return file

    def _write(self, file: BinaryIO, line: bytes) -> None:
        file.write(line)
        self._bytes += len(line)
        self._log.bytes += len(line)

    def _complete(self, pack: bool) -> None:
        if self._file is None:
            return
        self._file.close()
        self._file = None
        self._path.with_name(self._path.name + OPEN).rename(self._path)
        if pack:
            _pack(self._path)


def _pack(path: Path) -> None:
    """Compress a file. The same content gives the same bytes."""
    packed = path.with_name(path.name + PACKED)
    with (
        path.open("rb") as plain,
        packed.open("xb") as target,
        gzip.GzipFile("", "wb", _LEVEL, target, mtime=0) as compressed,
    ):
        shutil.copyfileobj(plain, compressed, 1 << 20)
    path.unlink()

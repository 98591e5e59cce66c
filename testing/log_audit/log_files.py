"""Writes an event log from memory to files, in the layout of the broker's own event log."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from ...analytics.schema import LOGICAL_BITS
from ...broker.process.eventlog_files import LogFiles
from ...broker.reporting.events import Row

_SIZE = 64 << 20
_AGE_MS = 3_600_000


def write_log(rows: Iterable[Row], directory: Path) -> Path:
    """Write all rows below `directory`, in files per node and boot. Returns `directory`; raises OSError."""
    encode = msgspec.json.Encoder(enc_hook=str).encode
    lines: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
    for row in rows:
        line = (row["hlc"] >> LOGICAL_BITS, encode(row) + b"\n")
        lines.setdefault((row["node"], row["boot"]), []).append(line)
    directory.mkdir(parents=True, exist_ok=True)
    for (node, boot), written in lines.items():
        files = LogFiles(directory, node, boot, size=_SIZE, age_ms=_AGE_MS, keep_days=0)
        _, error = files.write(written)
        files.close()
        if error is not None:
            raise error
    return directory

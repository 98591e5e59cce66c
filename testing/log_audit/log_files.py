"""Event logs as files, in the layout of the broker's own event log: written from memory, and read again."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterable
from pathlib import Path

from ...analytics.event_lines import Reject, Row, header_line, line_of, rows_in
from ...analytics.schema import LOGICAL_BITS
from ...broker.process.eventlog_files import Limits, LogFiles


def write_log(rows: Iterable[Row], directory: Path | str, size: int = 64 << 20) -> Path:
    """Write all rows below `directory`, in files per run, node and boot. Returns `directory`; raises OSError."""
    directory = Path(directory)
    lines: dict[tuple[str, int], list[tuple[str, int, bytes]]] = {}
    for row in rows:
        line = (row["run_id"], row["hlc"] >> LOGICAL_BITS, line_of(row))
        lines.setdefault((row["node"], row["boot"]), []).append(line)
    directory.mkdir(parents=True, exist_ok=True)
    for (node, boot), written in lines.items():
        files = LogFiles(directory, node, boot, Limits(size=size).for_ever())
        for run in dict.fromkeys(run for run, _, _ in written):
            files.begin(header_line(run, node, boot))
            _, error = files.write([(when_ms, line) for of, when_ms, line in written if of == run])
            if error is not None:
                raise error
        files.close()
    return directory


def read_log(directory: Path) -> tuple[list[Row], list[Reject]]:
    """The rows and the rejects of all files below `directory`, complete, compressed and open ones. Rows that are there
    twice come once: a compressed file may stand beside the one that it replaces. Raises OSError."""
    rows: dict[tuple[str, str, int, int], Row] = {}
    rejects: list[Reject] = []
    for path in sorted(directory.rglob("boot=*-*.jsonl*")):
        if path.name.endswith((".jsonl", ".jsonl.open", ".jsonl.gz")):
            for each in rows_in(lines_of(path)):
                if isinstance(each, Reject):
                    rejects.append(each)
                else:
                    rows[each["run_id"], each["node"], each["boot"], each["seq"]] = each
    return list(rows.values()), rejects


def lines_of(path: Path) -> list[bytes]:
    """The lines of one file. The broker may complete or compress it meanwhile: then it has its next name."""
    name = path.name.removesuffix(".gz").removesuffix(".open")
    for each in (path, path.with_name(name), path.with_name(f"{name}.gz")):
        with contextlib.suppress(FileNotFoundError):
            content = each.read_bytes()
            return (gzip.decompress(content) if each.name.endswith(".gz") else content).split(b"\n")
    return []

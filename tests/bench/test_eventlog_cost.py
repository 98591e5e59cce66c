"""What `bench.eventlog_cost` makes of logs and measurements."""

from __future__ import annotations

import gzip
from pathlib import Path

from bench.eventlog_cost import LEVELS, rows_of, table, turns_of
from strogoff.analytics.event_lines import header_line, row_line


def test_rows_that_are_missing_and_times_of_sampling_are_counted(tmp_path: Path) -> None:
    """In plain files and in compressed ones."""
    gap = row_line("log.gap", 9, 9, 9, {"first": 3, "last": 9, "rows": 7, "reason": "overflow"})
    lines = [header_line("r", "n1", 1), row_line("node.stop", 1, 1, 1, {}), gap]
    (tmp_path / "boot=1-000001.jsonl").write_bytes(b"".join(lines))
    sample = row_line("log.sample", 10, 10, 10, {"state": "begin"})
    (tmp_path / "boot=1-000002.jsonl.gz").write_bytes(gzip.compress(b"".join([lines[0], sample])))
    assert rows_of(tmp_path) == (3, 7, 1)


def test_only_long_turns_count() -> None:
    log = "long turn: at=1.0 cpu_ms=73.1 wall_ms=90.2 gc_ms=1 in=7 x\nlong turn: at=2.0 cpu_ms=12.0 wall_ms=99\nother"
    assert turns_of(log) == [73.1]


def test_ratios_are_those_of_the_medians() -> None:
    given = dict(zip(LEVELS, ([2.0, 1.0, 9.0], [2.0, 2.0, 2.0], [2.2, 2.0, 3.0], [4.0, 5.0, 9.0]), strict=True))
    assert table({"QoS 0": given})[-1] == "| QoS 0 | 2.00 | 2.00 | 2.20 | 5.00 | **1.10** | **2.50** |"

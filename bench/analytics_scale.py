"""Measure `strogoff analytics` at scale: wall time, CPU time, rows a second and peak memory of each step.

    python -m bench.analytics_scale DIR --rows 1000000
    python -m bench.analytics_scale DIR --rows 1000000 --one-topic 0.9
    python -m bench.analytics_scale DIR --rows 1000000 --sessions 200000

`strogoff analytics generate` makes the log below DIR, once for each size. Then each step runs as a command of its own,
so its CPU time includes the start of Spark. It prints a line of a Markdown table for each. The audit must find what the
generator has planted, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.usage import run_measured

ROWS_OF_MESSAGE: Final = 9.36
ROWS_OF_SESSION: Final = 6
"""About how many rows the generator makes."""
COLUMNS: Final = (
    *("rows", "step", "wall", "load", "rows a second", "CPU of Java", "CPU of Python workers"),
    *("peak of Java", "peak of a worker", "peak of the driver"),
)


def log_of(directory: Path, rows: int, one_topic: float, sessions: int) -> Path:
    """The directory that `generate` has made for this size."""
    made = directory / f"log-{rows}-{one_topic:g}-{sessions}"
    if not (made / "expected.json").exists():
        shutil.rmtree(made, ignore_errors=True)
        messages = max(int((rows - sessions * ROWS_OF_SESSION) / ROWS_OF_MESSAGE), 1)
        more = ["--one-topic", f"{one_topic:g}", "--sessions", str(sessions)]
        command = ["generate", "--out", str(made), "--messages", str(messages), *more]
        subprocess.run([sys.executable, "-m", "strogoff", "analytics", *command], check=True, stdout=sys.stderr)
    return made


def step(name: str, arguments: Sequence[str], rows: int, output: Path) -> str:
    """Run a command. Returns a line of the table."""
    wall_s, usage = run_measured(["-m", "strogoff", "analytics", *arguments], output)
    cells = [
        *(f"{rows:,}", name, f"{wall_s:.0f} s", f"{os.getloadavg()[0]:.1f}", f"{rows / wall_s:,.0f}"),
        *(f"{usage.cpu_s(kind):.0f} s" for kind in ("java", "worker")),
        *(f"{usage.peak_mb.get(kind, 0):,} MB" for kind in ("java", "worker", "driver")),
    ]
    return f"| {' | '.join(cells)} |"


def checked(found: Path, expected: Path) -> None:
    """Compare the output of the audit with what the generator has planted."""
    (run,) = json.loads(found.read_text())["runs"]
    wanted = json.loads(expected.read_text())
    ids = [{each["id"] for each in result["findings"]} for result in (run, wanted)]
    assert run["verdict"] == wanted["verdict"], (run["verdict"], wanted["verdict"])
    assert ids[0] == ids[1], f"found too much: {ids[0] - ids[1]}, not found: {ids[1] - ids[0]}"


def main() -> Iterator[str]:
    """Run it as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--one-topic", type=float, default=0)
    parser.add_argument("--sessions", type=int, default=0)
    parser.add_argument("--memory", default="4g")
    arguments = parser.parse_args()
    made = log_of(arguments.directory, arguments.rows, arguments.one_topic, arguments.sessions)
    expected, tables = made / "expected.json", made / "tables"
    shutil.rmtree(tables, ignore_errors=True)
    rows = json.loads(expected.read_text())["rows"]
    memory = ["--memory", arguments.memory]
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---:|---|" + "---:|" * (len(COLUMNS) - 2)
    ingest = ["ingest", str(made / "eventlog"), "--out", str(tables), *memory]
    yield step("ingest", ingest, rows, made / "ingest.txt")
    yield step("ingest, nothing new", ingest, rows, made / "ingest.txt")
    audit = ["audit", str(tables), "--format", "json", "--limit", "100000", *memory]
    yield step("audit", audit, rows, made / "audit.json")
    checked(made / "audit.json", expected)


if __name__ == "__main__":
    for line in main():
        print(line, flush=True)

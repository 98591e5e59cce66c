"""Measure `strogoff analytics ingest`: wall time, CPU time, rows a second, peak memory of Java and of a Python worker.

    python -m bench.ingest DIR --events 1000000

It writes a log below DIR if there is none of this size (`bench/eventlog_lines.py`), and runs the command twice. The
second run finds nothing new.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.eventlog_lines import write

_TICKS = 100
_EVERY_S = 0.1


class Usage:
    """The highest memory and the CPU time of a process and its descendants, by kind: java, worker, driver."""

    def __init__(self) -> None:
        self.peak_mb: dict[str, int] = {}
        self._cpu: dict[int, tuple[str, float]] = {}

    def sample(self, root: int) -> None:
        """Look at the processes now."""
        parents = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = path.read_text().rpartition(")")[2].split()
                parents[int(path.parent.name)] = (int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICKS)
        for pid in parents:
            if _descends(pid, root, parents):
                with contextlib.suppress(OSError):
                    self._add(pid, root, parents[pid][1])

    def cpu_s(self, kind: str) -> float:
        """CPU seconds of all processes of a kind."""
        return sum(seconds for each, seconds in self._cpu.values() if each == kind)

    def _add(self, pid: int, root: int, cpu_s: float) -> None:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        kind = "java" if name == "java" else "driver" if pid == root else "worker" if "python" in name else "other"
        status = Path(f"/proc/{pid}/status").read_text()
        rss = [int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmRSS")]
        self.peak_mb[kind] = max([self.peak_mb.get(kind, 0), *rss])
        self._cpu[pid] = (kind, cpu_s)


def _descends(pid: int, root: int, parents: dict[int, tuple[int, float]]) -> bool:
    while pid not in (0, root):
        pid = parents.get(pid, (0, 0.0))[0]
    return pid == root


def measure(log: Path, out: Path, memory: str) -> tuple[float, Usage]:
    """One run of the command: its wall time and its usage."""
    command = [sys.executable, "-m", "strogoff", "analytics", "ingest", str(log), "--out", str(out), "--memory", memory]
    usage = Usage()
    begin = time.monotonic()
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            usage.sample(process.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_EVERY_S)
    return time.monotonic() - begin, usage


def main() -> Iterator[str]:
    """Run it as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--memory", default="1g")
    arguments = parser.parse_args()
    log, out = arguments.directory / f"log-{arguments.events}", arguments.directory / f"out-{arguments.events}"
    if not log.exists():
        write(log, arguments.events)
    shutil.rmtree(out, ignore_errors=True)
    for run in ("first", "second"):
        wall_s, usage = measure(log, out, arguments.memory)
        yield f"{run} run: {wall_s:.1f} s wall, {arguments.events / wall_s:,.0f} events a second"
        for kind in ("java", "worker", "driver"):
            yield f"  {kind}: {usage.cpu_s(kind):.1f} s CPU, {usage.peak_mb.get(kind, 0)} MB"
    log_bytes, out_bytes = (sum(path.stat().st_size for path in each.rglob("*.*")) for each in (log, out))
    yield f"log {log_bytes / 1e6:.1f} MB, tables {out_bytes / 1e6:.1f} MB"


if __name__ == "__main__":
    for line in main():
        print(line, flush=True)

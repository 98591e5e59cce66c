"""Measure the job `audit`: wall time, CPU time, peak memory of Java and of a Python worker.

    python -m bench.audit DIR --events 1000000

It writes a log below DIR if there is none of this size and skew (`bench/eventlog_lines.py`), ingests it, and audits the
tables twice in one Spark. The second run finds Java and the workers warm.
"""

from __future__ import annotations

import argparse
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.eventlog_lines import write
from bench.ingest import Usage
from strogoff.analytics import silver
from strogoff.analytics.audit import auditing as audit
from strogoff.analytics.ingest import ingest
from strogoff.analytics.manifest import NAME, load
from strogoff.analytics.spark import open_session

_EVERY_S = 0.1
_KINDS = ("java", "worker", "driver")


class Meter:
    """Looks at this process and its descendants all the time, in a thread."""

    def __init__(self) -> None:
        self.usage = Usage()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(_EVERY_S):
            self.usage.sample(os.getpid())

    def close(self) -> None:
        """Look no more."""
        self._end.set()
        self._thread.join()


def measured(name: str, meter: Meter, job: Callable[[], str]) -> Iterator[str]:
    """Run a job. Returns lines about its wall and CPU time, and about the highest memory so far."""
    usage = meter.usage
    usage.sample(os.getpid())
    before = {kind: usage.cpu_s(kind) for kind in _KINDS}
    begin = time.monotonic()
    result = job()
    wall_s = time.monotonic() - begin
    usage.sample(os.getpid())
    yield f"{name}: {wall_s:.1f} s wall; {result}"
    for kind in _KINDS:
        yield f"  {kind}: {usage.cpu_s(kind) - before[kind]:.1f} s CPU, {usage.peak_mb.get(kind, 0)} MB"


def main() -> Iterator[str]:
    """Run it as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--skew", choices=["", "topic", "client"], default="")
    parser.add_argument("--memory", default="4g")
    arguments = parser.parse_args()
    name = f"{arguments.events}{arguments.skew}"
    log, out = arguments.directory / f"log-{name}", arguments.directory / f"tables-{name}"
    if not log.exists():
        write(log, arguments.events, arguments.skew)
    spark = open_session(memory=arguments.memory)
    meter = Meter()
    if not (out / NAME).exists():
        shutil.rmtree(out, ignore_errors=True)
        yield from measured("ingest", meter, lambda: f"{ingest(spark, log, out).rows} rows")
    events = silver.read_events(spark, out, load(out))
    for run in ("first audit", "second audit"):
        yield from measured(run, meter, lambda: " ".join(each.verdict for each in audit.audit(spark, events)))
    meter.close()
    spark.stop()


if __name__ == "__main__":
    for line in main():
        print(line, flush=True)

"""Measure `strogoff analytics view`: wall time and CPU time of each view of the same tables.

    python -m bench.views DIR --events 1000000

It writes a log below DIR (`bench/eventlog_lines.py`) and ingests it if there is none of this size. Each view runs twice
in one Java: the first run compiles, the second one is what a warm Spark needs.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.eventlog_lines import write
from bench.usage import Usage
from strogoff.analytics.spark import open_session
from strogoff.analytics.views.command import LIMIT, shown
from strogoff.analytics.views.registry import NAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUNS: Final = ("first", "warm")


def cpu_s() -> float:
    """CPU seconds of Java and of this process so far."""
    usage = Usage()
    usage.sample(os.getpid())
    return sum(usage.cpu_s(kind) for kind in ("java", "driver", "worker"))


def tables_of(spark: SparkSession, directory: Path, events: int) -> DataFrame:
    """The events of a log of this size, which is written and ingested if it is new."""
    from strogoff.analytics.sources import is_tables, open_tables

    log, out = directory / f"log-{events}", directory / f"out-{events}"
    if not log.exists():
        write(log, events)
    return open_tables(spark, out if is_tables(out) else log, out).events


def main() -> Iterator[str]:
    """Run it as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--memory", default="1g")
    parser.add_argument("views", nargs="*", default=NAMES)
    arguments = parser.parse_args()
    spark = open_session("local[*]", arguments.memory)
    events = tables_of(spark, arguments.directory, arguments.events)
    for name in arguments.views:
        for run in RUNS:
            begin_s, begin_cpu_s = time.monotonic(), cpu_s()
            text = shown(events, name, LIMIT, "text")
            used_s, used_cpu_s = time.monotonic() - begin_s, cpu_s() - begin_cpu_s
            yield f"{name}, {run}: {used_s:.1f} s wall, {used_cpu_s:.1f} s CPU, {len(text.splitlines()) - 1} rows"
    spark.stop()


if __name__ == "__main__":
    for line in main():
        print(line, flush=True)

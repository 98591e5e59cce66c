"""The job `ingest`, killed at random moments and started again."""

from __future__ import annotations

import gzip
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .logs import cluster
from .test_ingest import check, ingested, parquet_of, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(1800)]

RUN = """
import os, signal, sys
from pathlib import Path
from strogoff.analytics.ingest import ingest
from strogoff.analytics.spark import open_session
log, out, other = map(Path, sys.argv[1:4])
left = int(sys.argv[4])

def step(event, arguments):
    global left
    if event in STEPS and str(arguments[0]).startswith(str(out)):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

STEPS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree")
spark = open_session("local[2]", "512m", {"spark.sql.shuffle.partitions": "2"}, "-XX:TieredStopAtLevel=1")
ingest(spark, log, other)  # without it most of the time would pass before the first rows are written
print("ready", flush=True)
sys.addaudithook(step)
ingest(spark, log, out, batch_bytes=8_000)
"""
"""Runs an ingest that kills itself before its n-th change of the directory, if n is not 0."""

KILLS = 2
LONGEST_S = 5
MOST_STEPS = 80
FILES_A_RUN = 3
WITHOUT_END_S = 600


def test_kills_leave_the_tables_of_one_run(spark: SparkSession, tmp_path: Path) -> None:
    """Files come and grow between the kills. Some kills spare Java, which goes on for a moment."""
    from strogoff.analytics.manifest import load

    rng = random.Random(14)
    log, out, whole = tmp_path / "log", tmp_path / "out", tmp_path / "whole"
    for node in cluster(30, minutes=60):
        node.write(whole, size=1500)
    paths = sorted(whole.rglob("*.jsonl"))
    rng.shuffle(paths)
    run = _Runs(log, out, tmp_path)
    kills = 0
    generations = []
    while kills < KILLS:  # some runs have done their work before
        for opened in [*log.rglob("*.open")]:
            _complete(opened, whole / opened.relative_to(log).with_suffix(""))
        assert len(paths) >= FILES_A_RUN
        for path in [paths.pop() for _ in range(FILES_A_RUN)]:
            _come(path, log / path.relative_to(whole), rng)
        if rng.random() < 0.5:
            kills += run.killed(after_s=rng.uniform(0, LONGEST_S), java_too=rng.random() < 0.5)
        else:
            kills += run.killed(at_step=rng.randrange(1, MOST_STEPS))
        generations.append(load(out).generation)
    assert len({*generations}) > 1, generations  # a kill came behind a new manifest
    assert not run.killed()
    check(spark, log, out)
    ingested(spark, log, tmp_path / "one")
    assert tables(spark, tmp_path / "one") == tables(spark, out)
    assert len(parquet_of(out)) == len(parquet_of(tmp_path / "one"))


class _Runs:
    """Runs of the job, each in a process of its own."""

    def __init__(self, log: Path, out: Path, others: Path) -> None:
        self._log = log
        self._out = out
        self._others = others
        self._number = 0

    def killed(self, after_s: float = WITHOUT_END_S, java_too: bool = True, at_step: int = 0) -> bool:
        """Run the job, and kill it after this time, or before this step. Returns whether it had not ended before."""
        self._number += 1
        other = self._others / f"other-{self._number}"
        command = [sys.executable, "-c", RUN, *map(str, (self._log, self._out, other, at_step))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            try:
                status = process.wait(after_s)
            except subprocess.TimeoutExpired:
                if java_too:
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    process.kill()
                return True
            assert status in (0, -signal.SIGKILL)
            return status != 0


def _come(path: Path, target: Path, rng: random.Random) -> None:
    """A file of the log is there, under any of its names."""
    target.parent.mkdir(parents=True, exist_ok=True)
    content = path.read_bytes()
    match rng.randrange(3):
        case 0:
            target.with_name(f"{target.name}.gz").write_bytes(gzip.compress(content))
        case 1:
            target.with_name(f"{target.name}.open").write_bytes(content[: rng.randrange(len(content))])
        case _:
            target.write_bytes(content)


def _complete(opened: Path, whole: Path) -> None:
    """The broker writes the rest of a file, and completes it."""
    opened.write_bytes(whole.read_bytes())
    opened.rename(opened.with_suffix(""))

"""Run the jobs on a standalone Spark cluster on loopback, and compare their findings with those of one process.

    python -m bench.spark_cluster DIR

It makes a planted log, and starts a master and two workers. Then it runs `audit` and `stream --once` in three ways: in
this machine's `local[2]`, with `--master`, and under `spark-submit` with the archive of `strogoff analytics pack`. The
Python of the workers of `spark-submit` does not have Strogoff installed. It ends what it started, and exits with 1 if
the ids of the findings differ.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pyspark

from strogoff.analytics.java import find, make_shim
from strogoff.analytics.pack import pack

START_S = 90.0
"""So long the master or a worker may take to start."""
JOB_S = 600.0
"""So long a job may take."""
WORKERS = 2
MEMORY = "1g"
"""Of a worker; an executor of Spark takes so much by default."""
SETTINGS = "spark.sql.shuffle.partitions 4\n"
"""The default of 200 is for large clusters: on two cores most of the time would pass with empty tasks."""
PLANTED = "A1,A6,A10"
AUDIT = ("--format", "json", "--limit", "1000")
STREAM = ("--once", "--late", "200ms", "--slow", "100ms", "--delay", "1s")
MASTER = ("org.apache.spark.deploy.master.Master", "I have been elected leader")
WORKER = ("org.apache.spark.deploy.worker.Worker", "Successfully registered with master")


@contextmanager
def daemon(kind: tuple[str, str], log: Path, *words: str) -> Iterator[None]:
    """A process of the cluster, from when its log says that it is ready until the end of the context."""
    home = Path(pyspark.__path__[0])
    name, ready = kind
    with log.open("wb") as out:
        process = subprocess.Popen(
            [home / "bin" / "spark-class", name, "--host", "127.0.0.1", "--webui-port", "0", *words],
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            end = time.monotonic() + START_S
            while ready not in log.read_text():
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"{name} did not start: see {log}")
                time.sleep(0.2)
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def cluster(directory: Path) -> Iterator[str]:
    """A master and its workers on loopback. Returns its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        stack.enter_context(daemon(MASTER, directory / "master.log", "--port", str(port)))
        for number in range(WORKERS):
            place = directory / f"worker-{number}"
            words = ("--cores", "1", "--memory", MEMORY, "--work-dir", str(place), url)
            stack.enter_context(daemon(WORKER, directory / f"worker-{number}.log", *words))
        yield url


def bare_python(directory: Path) -> Path:
    """A Python with the libraries of this one, and without Strogoff: it reads no .pth files."""
    path = directory / "bare-python"
    site = sysconfig.get_path("purelib")
    path.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{site}"\nexport PYTHONPATH\nexec {shlex.quote(sys.executable)} -S "$@"\n'
    )
    path.chmod(0o755)
    found = subprocess.run([path, "-c", "import strogoff"], capture_output=True, cwd="/")
    assert found.returncode == 1, "Strogoff is installed in it"
    return path


def run(words: Sequence[str | Path], environ: dict[str, str]) -> str:
    """Run a job. Returns what it says; a wrong log is no error."""
    begin = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, timeout=JOB_S, env=environ)
    print(f"$ {shlex.join(map(str, words))}\n  status {done.returncode} after {time.monotonic() - begin:.0f} s")
    if done.returncode not in (0, 3, 4):
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return done.stdout


class Ways:
    """The same jobs in several ways. `ids` has what each of them found."""

    def __init__(self, directory: Path, log: Path) -> None:
        self.directory = directory
        self.log = log
        self.ids: dict[str, tuple[list[str], list[str]]] = {}

    def go(self, way: str, words: Sequence[str | Path], options: Sequence[str], environ: dict[str, str]) -> None:
        """Run both jobs: `words`, then the job with its arguments, then `options`."""
        place = self.directory / way
        said = run([*words, "audit", self.log, "--out", place / "tables", *AUDIT, *options], environ)
        audited = [each["id"] for each_run in json.loads(said)["runs"] for each in each_run["findings"]]
        run([*words, "stream", self.log, "--out", place / "stream", *STREAM, *options], environ)
        alerts = pq.read_table(place / "stream" / "alerts").column("id").to_pylist()
        self.ids[way] = sorted(audited), sorted(alerts)
        print(f"  {way}: {len(audited)} findings, {len(alerts)} alerts")


def main() -> int:
    """Run it as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--messages", type=int, default=2000)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that it ends what it started
    directory: Path = arguments.directory.resolve()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    strogoff = [sys.executable, "-m", "strogoff", "analytics"]
    home = {"SPARK_HOME": pyspark.__path__[0], "SPARK_LOCAL_IP": "127.0.0.1"}
    os.environ["JAVA_HOME"] = str(make_shim(find(os.environ), os.environ))
    os.environ.update(home)
    plain = dict(os.environ)
    words = ("--messages", str(arguments.messages), "--plant", PLANTED)
    run([*strogoff, "generate", "--out", directory / "planted", *words], plain)
    ways = Ways(directory, directory / "planted" / "eventlog")
    ways.go("local", strogoff, ("--master", "local[2]"), plain)
    archive, job = pack(directory / "dist")
    bare = {**plain, "PYSPARK_PYTHON": str(bare_python(directory)), "PYSPARK_DRIVER_PYTHON": sys.executable}
    bare["PYTHONPATH"] = str(archive)  # of the driver, where Spark starts a worker to plan a stream
    (directory / "conf").mkdir()
    (directory / "conf" / "spark-defaults.conf").write_text(SETTINGS)
    plain["SPARK_CONF_DIR"] = bare["SPARK_CONF_DIR"] = str(directory / "conf")
    with cluster(directory) as url:
        ways.go("master", strogoff, ("--master", url), plain)
        submit: list[str | Path] = [Path(pyspark.__path__[0]) / "bin" / "spark-submit", "--master", url]
        submit += ["--conf", "spark.driver.host=127.0.0.1"]
        submit += ["--driver-java-options", "-Xss4m", "--py-files", archive, job]
        ways.go("submit", submit, (), bare)
    same = len({repr(each) for each in ways.ids.values()}) == 1
    print("the ids are the same" if same else f"the ids differ: {ways.ids}")
    return 0 if same and all(ways.ids["local"]) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Prometheus as a process that scrapes nodes on this machine, with the shipped configuration and rules."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from bench.broker_process import free_port

from ..brokers import require_program, until

SHIPPED = Path(__file__).resolve().parents[3] / "deploy" / "watching"


class Prometheus:
    """A running Prometheus, asked over its API."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def ready(self) -> bool:
        """Whether it answers."""
        try:
            with urlopen(f"{self.url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, TimeoutError, ConnectionError):
            return False

    def _get(self, path: str, **arguments: str) -> Any:
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(arguments)}", timeout=20) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an expression now."""
        return list(self._get("query", query=expression)["result"])

    def alerts(self, state: str = "firing") -> set[tuple[str, str]]:
        """The alerts in this state: name, and the instance that they are about, or an empty text."""
        found = [each for each in self._get("alerts")["alerts"] if each["state"] == state]
        return {(each["labels"]["alertname"], each["labels"].get("instance", "")) for each in found}


def configuration(targets: Sequence[str]) -> str:
    """The shipped example for these targets, with a scrape and an evaluation each second."""
    conf = yaml.safe_load((SHIPPED / "prometheus.yml").read_text(encoding="utf-8"))
    conf["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    conf["rule_files"] = [str(SHIPPED / name) for name in conf["rule_files"]]
    (job,) = conf["scrape_configs"]
    job["static_configs"] = [{"targets": list(targets)}]
    return str(yaml.safe_dump(conf))


@contextmanager
def watching(folder: Path, targets: Sequence[str]) -> Iterator[Prometheus]:
    """Run Prometheus in a folder. Skips by name where it is not installed."""
    program = require_program("prometheus", "prometheus")
    folder.mkdir()
    conf, port = folder / "prometheus.yml", free_port()
    conf.write_text(configuration(targets), encoding="utf-8")
    command = [program, f"--config.file={conf}", f"--storage.tsdb.path={folder / 'data'}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    try:
        prometheus = Prometheus(port)
        until(prometheus.ready)
        yield prometheus
    finally:
        process.terminate()
        process.wait(30)

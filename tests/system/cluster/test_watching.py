"""Three nodes and a real Prometheus with the shipped rules: a killed node is told of, and nothing else; every panel of
the dashboard shows something."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.broker_process import free_port
from bench.cluster_nodes import Node, whole
from deploy.watching.dashboard import promql
from deploy.watching.panel import Query
from deploy.watching.panels import FIRING, ROWS

from ..brokers import Background, Certificates, require_program, until
from ..paho_client import MQTT_5, Paho
from .joined import joined
from .prometheus import Prometheus, watching

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(240)]

TOLD_S = 30.0
"""How soon the alert of a killed node must fire, with a scrape each second."""


@contextmanager
def watched(folder: Path) -> Iterator[tuple[list[Node], list[str], Background, Prometheus]]:
    """Three nodes, the addresses of their pages, the loop that runs them, and Prometheus that has scraped all."""
    require_program("prometheus", "prometheus")
    pem = Certificates(folder)
    pages = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    nodes = [
        Node(
            folder,
            f"n{number}",
            listener__http__watching=page,
            listener__ssl__default=f"127.0.0.1:{free_port()}",
            listener__ssl__certfile=str(pem.cert),
            listener__ssl__keyfile=str(pem.key),
            max_offline_messages="1",
        )
        for number, page in enumerate(pages, 1)
    ]
    with joined(nodes) as background, watching(folder / "prometheus", pages) as prometheus:
        until(lambda: len(prometheus.query("up == 1")) == 3)
        yield nodes, pages, background, prometheus


def becomes(prometheus: Prometheus, wanted: set[tuple[str, str]], before: set[tuple[str, str]]) -> float:
    """Wait until exactly these alerts fire. Until then those of `before` may. Returns the seconds that it took."""
    began = time.monotonic()

    def fire() -> bool:
        found = prometheus.alerts()
        assert found <= wanted | before, found
        return found == wanted

    until(fire, TOLD_S)
    return time.monotonic() - began


def test_a_killed_node_is_told_of_and_nothing_else(tmp_path: Path) -> None:
    with watched(tmp_path) as (nodes, pages, background, prometheus):
        down = {("StrogoffNodeDown", pages[2])}
        becomes(prometheus, set(), set())
        background.run(nodes[2].kill())
        assert becomes(prometheus, down, set()) > 15  # a restart may take that long without an alert
        assert ("StrogoffClusterNotWhole", "") in prometheus.alerts("pending")
        (told,) = prometheus.query(promql(FIRING, "strogoff", ".+"))
        assert (told["metric"]["severity"], told["metric"]["instance"]) == ("critical", pages[2])
        background.run(nodes[2].start())
        becomes(prometheus, set(), down)
        background.run(whole(nodes))
        until(lambda: ("StrogoffClusterNotWhole", "") not in prometheus.alerts("pending"))
        assert prometheus.alerts() == set()


def make_traffic(nodes: list[Node]) -> None:
    """Clients connect, take a connection over, and fill a queue, so that each kind of series begins."""
    port = nodes[0].port
    with Paho(None, "kept", 4, port=port, clean=False) as reader:
        reader.subscribe("t", 1)
    with Paho(None, "writer", MQTT_5, port=port) as writer:
        for number in range(5):
            writer.publish("t", str(number).encode(), 1)
        with Paho(None, "writer", MQTT_5, port=port):
            assert writer.gone.wait(20)


@pytest.mark.by_hand
def test_every_panel_shows_something(tmp_path: Path) -> None:
    with watched(tmp_path) as (nodes, _, _, prometheus):
        queries = [query for row in ROWS for panel in row.panels for query in panel.queries if query is not FIRING]
        empty: list[Query] = []

        def all_show() -> bool:
            make_traffic(nodes)
            empty[:] = [query for query in queries if not prometheus.query(promql(query, "strogoff", ".+", "30s"))]
            return not empty

        try:
            until(all_show, 40)
        except AssertionError:
            pytest.fail(f"these show nothing: {[query.text for query in empty]}")
        shown = [promql(query, "strogoff", "n2@127.0.0.1", "30s") for query in queries]
        names = {series["metric"].get("node") for text in shown for series in prometheus.query(text)}
        assert names <= {None, "n2@127.0.0.1"} and len(names) == 2

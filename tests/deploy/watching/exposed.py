"""The series that a member of a running cluster has at `/metrics`, and whether expressions of PromQL find them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from strogoff.admin.server import AdminServer
from strogoff.testing import Cluster
from tests.system.brokers import Certificates

Labels = Mapping[str, str]
Series = Mapping[str, Sequence[Labels]]
"""Name -> the labels of each series, as they are after a scrape."""

OF_PROMETHEUS = {"job": "strogoff", "instance": "127.0.0.1:8888"}
MADE_BY_PROMETHEUS: Series = {
    "up": [OF_PROMETHEUS],
    "ALERTS": [{**OF_PROMETHEUS, "alertname": "StrogoffNodeDown", "alertstate": "firing", "severity": "critical"}],
}
"""Series that come from no node."""

_METRIC = re.compile(r"([A-Za-z_:][\w:]*)\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"')
_BY = re.compile(r"\bby \(([^)]*)\)")


async def page_of_a_member(folder: Path) -> str:
    """The page of a member of two. It has dropped a message, and has a listener with a certificate."""
    pem = Certificates(folder)
    conf: dict[str, str | int | bool] = {
        "listener.http.default": "127.0.0.1:0",
        "listener.ssl.default": "127.0.0.1:0",
        "listener.ssl.certfile": str(pem.cert),
        "listener.ssl.keyfile": str(pem.key),
        "max_offline_messages": 1,
    }
    async with Cluster(2, conf, pace=4, directory=folder / "data") as cluster:
        reader = await cluster.client("reader", clean_start=False)
        await reader.subscribe("t", qos=1)
        await reader.disconnect()
        writer = await cluster.client("writer")
        for _ in range(3):
            await writer.publish("t", "x", qos=1)
        (server,) = [node.server for node in cluster.nodes if node.server.node.env.counters.drops_by_reason]
        admin = AdminServer()
        await admin.start(server)
        try:
            assert admin.context is not None
            (listener,) = admin.context.http.show()
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{listener.port}/metrics") as answer,
            ):
                return await answer.text()
        finally:
            await admin.stop()


def exposed(folder: Path) -> Series:
    """All series of a member, with the labels that a scrape adds."""
    page = asyncio.run(page_of_a_member(folder))
    found: dict[str, list[Labels]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found.setdefault(_as_written(sample.name, page), []).append({**OF_PROMETHEUS, **sample.labels})
    return {**found, **MADE_BY_PROMETHEUS}


def _as_written(name: str, page: str) -> str:
    """The name of a series on the page: the parser adds the suffix of OpenMetrics to counters."""
    return name if f"\n{name}{{" in page else name.removesuffix("_total")


def wrong(expression: str, series: Series) -> list[str]:
    """The reasons why an expression would find nothing, or less than it asks for; none if it is right."""
    found = list(_wrong_metrics(expression, series))
    bare = _METRIC.sub("", expression)
    found += [f"{name} has no braces" for name in re.findall(r"\b(?:vernemq|process|python)_\w+", bare)]
    labels = {label for name, _ in _METRIC.findall(expression) for each in series.get(name, ()) for label in each}
    for by in _BY.findall(expression):
        found += [f"no metric has the label {label}" for label in re.split(r",\s*", by) if label not in labels]
    return found


def _wrong_metrics(expression: str, series: Series) -> Iterator[str]:
    for name, inside in _METRIC.findall(expression):
        if name not in series:
            yield f"there is no metric {name}"
            continue
        if re.sub(r"[\s,]", "", _MATCHER.sub("", inside)):
            yield f"{name} has labels that cannot be read: {inside}"
        for label, operator, value in _MATCHER.findall(inside):
            having = [each[label] for each in series[name] if label in each]
            if not having:
                yield f"{name} has no label {label}"
            # a value that is left out must exist as well, or the expression leaves out nothing
            for wanted in [value] if operator in ("=", "!=") else value.split("|"):
                if not any(each == wanted or ("~" in operator and re.fullmatch(wanted, each)) for each in having):
                    yield f"{name} has no series with {label}={wanted}"

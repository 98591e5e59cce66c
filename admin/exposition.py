"""Metrics in the text format 0.0.4 of Prometheus.

This module writes the format itself, because `prometheus_client` adds `_total` to the name of every counter. The
names of VerneMQ, on which dashboards depend, have no such suffix. The metrics in the registry of `prometheus_client`
keep their names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from prometheus_client import REGISTRY, CollectorRegistry

from ..storage.durations import Durations
from .metric_names import described
from .metrics import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SUFFIXES = {"counter": "_total", "info": "_info"}
"""Type of a metric family -> suffix of its name."""
_TYPES = {"unknown": "untyped", "info": "gauge", "stateset": "gauge", "gaugehistogram": "histogram"}
"""Types that the format lacks -> the nearest type that it has."""


def exposition(rows: Iterable[Metric], namespace: str, node: str) -> str:
    """All series with the prefix `namespace` and the label `node`. In `rows` the series of a metric are adjacent."""
    lines: list[str] = []
    last = ""
    for row in rows:
        name = namespace + row.name
        if name != last:
            lines += _head(name, row.type, described(row.name)[1])
            last = name
        lines.append(_sample(name, (("node", node), *row.labels), row.value))
    return "\n".join(lines) + "\n"


def histogram_exposition(histograms: Mapping[str, Durations], namespace: str, node: str) -> str:
    """All histograms, in seconds, with the prefix `namespace` and the label `node`."""
    lines: list[str] = []
    for name, durations in histograms.items():
        lines += _head(namespace + name, *described(name))
        cumulated = durations.cumulated
        for bound, number in zip([*durations.bounds, math.inf], cumulated, strict=True):
            labels = (("node", node), ("le", _number(bound)))
            lines.append(_sample(f"{namespace}{name}_bucket", labels, number))
        lines.append(_sample(f"{namespace}{name}_sum", (("node", node),), durations.total_s))
        lines.append(_sample(f"{namespace}{name}_count", (("node", node),), cumulated[-1]))
    return "\n".join(lines) + "\n"


def process_exposition(node: str, registry: CollectorRegistry = REGISTRY) -> str:
    """The registry of `prometheus_client`: the process, the interpreter, and the metrics of plugins.

    It reads /proc, which is slow with many connections, so call it outside of the event loop.
    """
    lines: list[str] = []
    for family in registry.collect():
        kind = _TYPES.get(family.type, family.type)
        lines += _head(family.name + _SUFFIXES.get(family.type, ""), kind, family.documentation)
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                lines.append(_sample(sample.name, (("node", node), *sample.labels.items()), sample.value))
    return "\n".join(lines) + "\n"


def _head(name: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP {name} {meaning.replace(chr(92), chr(92) * 2).replace(chr(10), ' ')}", f"# TYPE {name} {kind}"]


def _sample(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{inside}}} {_number(value)}"


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

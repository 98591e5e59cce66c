"""Prometheus' text format, read back by Prometheus' own parser."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.parser import text_string_to_metric_families

from strogoff.admin.exposition import exposition, histogram_exposition, process_exposition
from strogoff.admin.metrics import Metric
from strogoff.storage.durations import Durations

ROWS = [
    Metric("counter", "mqtt_publish_received", (("mqtt_version", "4"),), 3),
    Metric("counter", "mqtt_publish_received", (("mqtt_version", "5"),), 0),
    Metric("counter", "queue_message_drop_by_reason", (("reason", 'a"\\\n'),), 1),
    Metric("gauge", "retain_messages", (), 7),
]


def test_the_text() -> None:
    assert exposition(ROWS[:2] + ROWS[3:], "vernemq_", "a@b") == (
        "# HELP vernemq_mqtt_publish_received PUBLISH packets received.\n"
        "# TYPE vernemq_mqtt_publish_received counter\n"
        'vernemq_mqtt_publish_received{node="a@b",mqtt_version="4"} 3\n'
        'vernemq_mqtt_publish_received{node="a@b",mqtt_version="5"} 0\n'
        "# HELP vernemq_retain_messages Retained messages.\n"
        "# TYPE vernemq_retain_messages gauge\n"
        'vernemq_retain_messages{node="a@b"} 7\n'
    )


def test_prometheus_reads_the_same_metrics_back() -> None:
    families = list(text_string_to_metric_families(exposition(ROWS, "", "n")))
    # the parser adds the suffix of OpenMetrics to counters
    samples = {
        (sample.name.removesuffix("_total"), *sample.labels.items()): sample.value
        for family in families
        for sample in family.samples
    }
    assert samples == {(row.name, ("node", "n"), *row.labels): row.value for row in ROWS}
    assert [family.type for family in families] == ["counter", "counter", "gauge"]


def test_a_histogram() -> None:
    durations = Durations((0.5, 1.0))
    for took_s in (0.25, 0.75, 0.75, 4.0):
        durations.add(took_s)
    text = histogram_exposition({"store_commit_seconds": durations}, "vernemq_", "n")
    (family,) = text_string_to_metric_families(text)
    assert (family.name, family.type) == ("vernemq_store_commit_seconds", "histogram")
    assert [(each.name.removeprefix(family.name), each.labels.get("le"), each.value) for each in family.samples] == [
        ("_bucket", "0.5", 1),
        ("_bucket", "1.0", 3),
        ("_bucket", "+Inf", 4),
        ("_sum", None, 5.75),
        ("_count", None, 4),
    ]
    assert {each.labels["node"] for each in family.samples} == {"n"}


def test_metrics_of_other_libraries_in_this_process() -> None:
    registry = CollectorRegistry()
    Counter("mine", "My counter.", ["what"], registry=registry).labels("x").inc(2)
    Gauge("level", "With \\ and\nlines.", registry=registry).set(float("inf"))
    Histogram("took", "Seconds.", buckets=(1,), registry=registry).observe(0.5)
    Info("build", "Build.", registry=registry).info({"version": "1"})
    text = process_exposition("n", registry)
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for f in text_string_to_metric_families(text)
        for sample in f.samples
    }
    assert found == {
        ("mine_total", "n", "x"): 2.0,
        ("level", "n"): float("inf"),
        ("took_bucket", "n", "1.0"): 1.0,
        ("took_bucket", "n", "+Inf"): 1.0,
        ("took_count", "n"): 1.0,
        ("took_sum", "n"): 0.5,
        ("build_info", "n", "1"): 1.0,
    }


def test_the_process() -> None:
    families = {family.name for family in text_string_to_metric_families(process_exposition("n"))}
    assert {"process_cpu_seconds", "process_resident_memory_bytes", "python_gc_collections"} <= families

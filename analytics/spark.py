"""The Spark session of the jobs."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark.sql import SparkSession

from .java import prepare

LOCAL = "local[*]"
"""Spark in one Java process on this machine, on all cores."""
_LOOPBACK = ("local", "spark://127.", "spark://localhost")
"""Begins of masters that are on this machine: nobody else needs to reach the driver."""


def open_session(
    master: str = LOCAL,
    memory: str = "1g",
    settings: Mapping[str, str] | None = None,
    java_options: str = "",
) -> SparkSession:
    """Start Spark, or return the session that this process already has. The caller stops it.

    `memory` is the heap of the driver. `settings` override the default ones. All times are UTC. Under spark-submit its
    own options say master and memory. Raises `JavaMissing`.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if SparkSession.getActiveSession() is None and not submitted:
        prepare(os.environ, master, memory, java_options)
    builder = SparkSession.builder if submitted else SparkSession.builder.master(master)
    for key, value in (defaults(master, submitted) | dict(settings or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def defaults(master: str, submitted: bool) -> dict[str, str]:
    """The default settings; those of a master on this machine keep the driver on loopback. Under spark-submit its own
    options decide on that."""
    chosen = {
        "spark.app.name": "strogoff",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if submitted:
        return chosen
    if master.startswith(_LOOPBACK):
        chosen |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    if master.startswith("local"):
        # The default of 200 is for clusters: on one machine it would mean 200 tiny tasks. Spark joins small partitions,
        # but does not divide large ones: with two for each core it would sort half of a table at a time.
        chosen |= {"spark.sql.shuffle.partitions": str(8 * (os.cpu_count() or 1))}
    return chosen

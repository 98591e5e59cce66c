"""The Spark session of the jobs: the only place that makes one."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark.sql import SparkSession

from .java import prepare

LOCAL = "local[*]"
"""Spark inside this process's own Java, on all cores."""


def open_session(
    master: str = LOCAL,
    memory: str = "1g",
    settings: Mapping[str, str] | None = None,
    java_options: str = "",
) -> SparkSession:
    """Start Spark, or take the session of the Java that this process already has. The caller stops it.

    `memory` is the driver's heap; `settings` go over ours. All times are UTC. Raises `JavaMissing`.
    """
    if SparkSession.getActiveSession() is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        prepare(os.environ, master, memory, java_options)
    chosen = {
        "spark.app.name": "strogoff",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if master.startswith("local"):
        # The default of 200 is made for clusters; here it is 200 tiny tasks.
        chosen |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        chosen |= {"spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1))}
    builder = SparkSession.builder.master(master)
    for key, value in (chosen | dict(settings or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()

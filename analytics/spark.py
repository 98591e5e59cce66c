"""The Spark session of the jobs."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark.sql import SparkSession

from .java import prepare

LOCAL = "local[*]"
"""Spark in one Java process on this machine, on all cores."""


def open_session(
    master: str = LOCAL,
    memory: str = "1g",
    settings: Mapping[str, str] | None = None,
    java_options: str = "",
) -> SparkSession:
    """Start Spark, or return the session that this process already has. The caller stops it.

    `memory` is the heap of the driver. `settings` override the default ones. All times are UTC. Raises `JavaMissing`.
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
        # the default of 200 is for clusters; on one machine it would mean 200 tiny tasks
        chosen |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        chosen |= {"spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1))}
    builder = SparkSession.builder.master(master)
    for key, value in (chosen | dict(settings or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()

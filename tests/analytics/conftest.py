"""One Spark for all tests of a worker: it takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark, small and quick to start. Skips where the `analytics` extra is not installed."""
    pytest.importorskip("pyspark")
    from strogoff.analytics.spark import open_session

    # Compiled lightly and with few partitions: these tables are tiny. By default Spark keeps 100 generated classes. One
    # audit needs more, so each audit would compile all of them again.
    settings = {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.cache.maxEntries": "5000"}
    session = open_session("local[2]", "512m", settings, "-XX:TieredStopAtLevel=1")
    yield session
    session.stop()

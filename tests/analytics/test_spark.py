"""The session: its clock, its partitions, its addresses, and that it is made once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")

from strogoff.analytics.spark import defaults

HOST, PARTITIONS = "spark.driver.host", "spark.sql.shuffle.partitions"


@pytest.mark.parametrize(
    ("master", "submitted", "host", "partitions"),
    [
        ("local[*]", False, True, True),
        ("spark://127.0.0.1:7077", False, True, False),
        ("spark://localhost:7077", False, True, False),
        ("spark://10.0.0.9:7077", False, False, False),
        ("local[*]", True, False, False),
    ],
)
def test_addresses_and_partitions_are_for_this_machine(
    master: str, submitted: bool, host: bool, partitions: bool
) -> None:
    found = defaults(master, submitted)
    assert (HOST in found, PARTITIONS in found) == (host, partitions)
    assert found["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
def test_a_second_session_is_the_first_one(spark: SparkSession) -> None:
    from strogoff.analytics.spark import open_session

    assert open_session().sparkContext is spark.sparkContext


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
def test_times_are_utc_and_tables_small(spark: SparkSession) -> None:
    assert spark.sql("select hour(timestamp_millis(3600000))").first() == (1,)
    assert int(spark.conf.get("spark.sql.shuffle.partitions") or 0) < 200
    assert spark.sparkContext.uiWebUrl is None

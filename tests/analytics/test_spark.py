"""The session: its clock, its partitions, and that it is made once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


def test_a_second_session_is_the_first_one(spark: SparkSession) -> None:
    from strogoff.analytics.spark import open_session

    assert open_session().sparkContext is spark.sparkContext


def test_times_are_utc_and_tables_small(spark: SparkSession) -> None:
    assert spark.sql("select hour(timestamp_millis(3600000))").first() == (1,)
    assert int(spark.conf.get("spark.sql.shuffle.partitions") or 0) < 200
    assert spark.sparkContext.uiWebUrl is None

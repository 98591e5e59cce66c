"""The tables of an ingest: their columns, their order, and each row once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strogoff.analytics import schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

HOUR = 3_600_000 << schema.LOGICAL_BITS


HEADER = {"v": 6, "run_id": "r", "node": "n1", "boot": 1, "mono_ns": 1, "type": "node.stop", "line": 1, "file": "a"}


def table(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Decoded lines."""
    from strogoff.analytics.silver import decoded_type

    return _table(spark, rows, decoded_type())


def event_table(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Events without date and hour."""
    from strogoff.analytics.silver import events_type

    return _table(spark, rows, events_type())


def _table(spark: SparkSession, rows: list[dict[str, Any]], columns: StructType) -> DataFrame:
    values = [[(HEADER | row).get(name) for name in columns.fieldNames()] for row in rows]
    return spark.createDataFrame(values, columns)


def test_the_columns_are_those_of_the_worker(spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    from strogoff.analytics.decoding import SCHEMA
    from strogoff.analytics.silver import decoded_type

    ours = to_arrow_schema(decoded_type())
    assert ours.names == SCHEMA.names
    assert [field.type for field in ours] == [field.type for field in SCHEMA]


def test_rows_have_the_hour_of_their_time(spark: SparkSession) -> None:
    from strogoff.analytics.silver import rows

    found = rows(table(spark, [{"seq": 1, "hlc": 0}, {"seq": 2, "hlc": 25 * HOUR}, {"seq": 3, "reject": "torn"}]))
    assert [(row["seq"], row["date"], row["hour"]) for row in found.orderBy("seq").collect()] == [
        (1, "1970-01-01", "00"),
        (2, "1970-01-02", "01"),
    ]


def test_the_same_row_comes_once_from_its_first_place(spark: SparkSession) -> None:
    """Two stamps under one number are two rows: a node without its data directory counts from boot 1 again."""
    from strogoff.analytics.silver import arrange, rows

    same = {"seq": 1, "hlc": 5, "mid": "n/1/1"}
    given = [{**same, "file": file, "line": line} for file, line in (("b", 1), ("a", 9), ("a", 3), ("c", 1))]
    given += [{"seq": 1, "hlc": 6, "mid": "n/1/1"}, {"seq": 1, "hlc": 5, "mid": "n/1/2"}]
    given += [{"seq": 2, "hlc": 7, "file": "b"}, {"seq": 2, "hlc": 7, "file": "c"}]
    for spread in (1, 3):
        found = arrange(rows(table(spark, given)), spread, 1).collect()
        assert sorted((row["seq"], row["hlc"], row["mid"] or "", row["file"], row["line"]) for row in found) == [
            (1, 5, "n/1/1", "a", 3),
            (1, 5, "n/1/2", "a", 1),
            (1, 6, "n/1/1", "a", 1),
            (2, 7, "", "b", 1),
        ]


@pytest.mark.parametrize("files_an_hour", [1, 3])
def test_files_are_sorted_and_have_one_hour(spark: SparkSession, tmp_path: Path, files_an_hour: int) -> None:
    import pyarrow.parquet as pq

    from strogoff.analytics.silver import ORDER, arrange, read_files, rows, write

    given = [
        {
            "seq": number,
            "hlc": number % 5 * HOUR + number,
            "mid": f"n/1/{number * 7 % 400 // 5}" if number % 4 else None,
        }
        for number in range(1, 400)
    ]
    write(arrange(rows(table(spark, given)), files_an_hour, 5), tmp_path / "events")
    paths = sorted((tmp_path / "events").rglob("*.parquet"))
    assert {path.parent.name for path in paths} == {f"hour={hour:02d}" for hour in range(5)}
    assert len(paths) == 5 if files_an_hour == 1 else 5 < len(paths) <= 15
    count = 0
    for path in paths:
        found = pq.ParquetFile(path)
        assert found.metadata.row_group(0).column(0).compression == "ZSTD"
        keys = [tuple(row.values()) for row in found.read(columns=ORDER).select(ORDER).to_pylist()]
        assert keys == sorted(keys, key=lambda key: (key[0] or "", key[1:]))
        count += len(keys)
    assert count == 399
    back = read_files(spark, tmp_path / "events", paths)
    assert {(row["seq"], row["hour"]) for row in back.select("seq", "hour").collect()} == {
        (number, f"{number % 5:02d}") for number in range(1, 400)
    }


def test_a_directory_without_files_has_empty_tables(spark: SparkSession, tmp_path: Path) -> None:
    from strogoff.analytics.manifest import Manifest
    from strogoff.analytics.silver import events_type, read_events, read_rejects

    events = read_events(spark, tmp_path, Manifest())
    assert events.columns == [*events_type().fieldNames(), "date", "hour"]
    assert events.count() == 0
    assert read_rejects(spark, tmp_path, Manifest()).count() == 0


def test_rejects_know_their_node_and_boot(spark: SparkSession) -> None:
    from strogoff.analytics.silver import rejects

    file = "date=2026-03-01/hour=12/node=a%20b%2Fc/boot=7-000001.jsonl"
    bad = {"file": file, "line": 3, "offset": 20, "reject": "torn", "text": "{cut", "bytes_of_line": 4, "hlc": None}
    (row,) = rejects(table(spark, [bad, {"seq": 1, "hlc": 1}])).collect()
    assert row.asDict() == {
        "file": file,
        "line": 3,
        "offset": 20,
        "node": "a b/c",
        "boot": 7,
        "reason": "torn",
        "text": "{cut",
        "bytes_of_line": 4,
    }

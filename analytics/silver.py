"""The tables that an ingest writes, as functions from table to table.

`events` has one row for each event: the fields of the schema, with `mid` as one string (`decoding.mid_key`), and the
place of the row: `file`, `line` and `offset`. It is partitioned by date and hour (UTC), and each of its files is sorted
by `mid`. `rejects` has one row for each line that is no event.

The same row may come more than once, for example in a copy of a file. Rows with the same `run_id`, `node`, `boot`,
`seq`, `hlc` and `mid` are one row, and the first place by name and line stays. So the tables do not depend on the order
in which files were read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from . import reading, schema
from .decoding import OTHERS
from .manifest import EVENTS, REJECTS, Manifest

PARTITION: Final = ["date", "hour"]
"""The columns by which `events` is partitioned."""

ORDER: Final = ["mid", "hlc", "run_id", "node", "boot", "seq"]
"""The order of the rows in a file of `events`. Rows of no message come first, by time."""

_OTHERS: Final = [each.name for each in schema.OF_OTHERS]
_PLACE: Final = ["file", "line"]
_NODE: Final = r"(?:^|/)node=([^/]*)/[^/]*$"
_BOOT: Final = r"(?:^|/)boot=([0-9]+)-[^/]*$"


def events_type() -> T.StructType:
    """The columns of `events`: those of the log with `mid` as a string, then the place, then the partition."""
    columns = [
        T.StructField(each.name, T.StringType() if each.name == "mid" else each.dataType)
        for each in reading.struct().fields
    ]
    columns += [T.StructField("file", T.StringType()), T.StructField("line", T.IntegerType())]
    return T.StructType([*columns, T.StructField("offset", T.LongType())])


def decoded_type() -> T.StructType:
    """The columns of `decoding.SCHEMA`."""
    plain = [each for each in events_type().fields if each.name not in _OTHERS]
    others = [each for each in events_type().fields if each.name in _OTHERS]
    line = T.StructType(plain).add("reject", T.StringType()).add("text", T.StringType())
    return line.add("bytes_of_line", T.LongType()).add(OTHERS, T.StructType(others))


def rows(decoded: DataFrame) -> DataFrame:
    """All lines that are events, with date and hour, as `arrange` takes them."""
    time = F.timestamp_millis(F.shiftright("hlc", schema.LOGICAL_BITS))
    return decoded.where(F.col("reject").isNull()).select(
        *_plain_names(), OTHERS, _text(time, "yyyy-MM-dd").alias("date"), _text(time, "HH").alias("hour")
    )


def narrow(events: DataFrame) -> DataFrame:
    """The rows of `events` as `arrange` takes them: columns that few rows have are one struct."""
    some = F.coalesce(*(F.when(F.col(name).isNotNull(), True) for name in _OTHERS))
    return events.select(*_plain_names(), F.when(some, F.struct(*_OTHERS)).alias(OTHERS), *PARTITION)


def _plain_names() -> list[str]:
    return [name for name in events_type().fieldNames() if name not in _OTHERS]


def rejects(decoded: DataFrame) -> DataFrame:
    """The rejected lines: file, line, offset, node and boot from the name of the file, reason, begin and length."""
    return decoded.where(F.col("reject").isNotNull()).select(
        *_PLACE,
        "offset",
        F.url_decode(F.regexp_extract("file", _NODE, 1)).alias("node"),
        F.regexp_extract("file", _BOOT, 1).cast("long").alias("boot"),
        F.col("reject").alias("reason"),
        "text",
        "bytes_of_line",
    )


def arrange(events: DataFrame, files_an_hour: int, hours: int) -> DataFrame:
    """The columns of `events`: each event once, sorted as in files, with this number of files for each hour."""
    # rows of no message have no mid; without their numbers all of them would be in one file
    of_no_message = F.when(F.col("mid").isNull(), F.col("seq"))
    spread = F.pmod(F.hash("mid", of_no_message), F.lit(files_an_hour)).alias("spread")
    parts = events.select("*", spread).repartition(files_an_hour * hours, *PARTITION, "spread")
    # the window sorts by its columns, so one sort finds repeated rows and is the order of the file
    same = Window.partitionBy(*PARTITION, *ORDER, "spread").orderBy(*_PLACE)
    first = parts.withColumn("repeated", F.row_number().over(same)).where(F.col("repeated") == 1)
    columns = [F.col(f"{OTHERS}.{name}" if name in _OTHERS else name) for name in events_type().fieldNames()]
    return first.sortWithinPartitions(*PARTITION, *ORDER).select(*columns, *PARTITION)


def write(arranged: DataFrame, directory: Path) -> None:
    """Write `events` in the partitions of date and hour."""
    arranged.write.partitionBy(*PARTITION).option("compression", "zstd").parquet(str(directory))


def read_files(spark: SparkSession, base: Path, files: Sequence[Path]) -> DataFrame:
    """Files of `events` below `base`, with date and hour from their paths."""
    whole = events_type().add("date", T.StringType()).add("hour", T.StringType())
    reader = spark.read.schema(whole).option("basePath", str(base))
    return reader.parquet(*map(str, files)) if files else spark.createDataFrame([], whole)


def read_events(spark: SparkSession, out: Path, manifest: Manifest) -> DataFrame:
    """The table `events` of a manifest."""
    return read_files(spark, out / EVENTS, [out / name for name in manifest.files(EVENTS)])


def read_rejects(spark: SparkSession, out: Path, manifest: Manifest) -> DataFrame:
    """The table `rejects` of a manifest."""
    files = [str(out / name) for name in manifest.files(REJECTS)]
    if files:
        return spark.read.parquet(*files)
    return rejects(spark.createDataFrame([], decoded_type()))


def _text(time: Column, form: str) -> Column:
    """A time as text that is never null: Spark would sort the rows again if a partition could be null."""
    return F.coalesce(F.date_format(time, form), F.lit(""))

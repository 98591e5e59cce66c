"""From the files of an event log to rows, and to rejects: no line is lost without a reason beside it."""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from . import schema

FILES = "boot=*-*.{jsonl,jsonl.open,jsonl.gz}"
"""Names of the files of an event log: complete, being written (or left by a crash), and compressed by somebody."""

TORN = "torn"
NOT_JSON = "not_json"
WRONG_TYPE = "wrong_type"
MISSING_HEADER = "missing_header"
NEWER_VERSION = "newer_version"
UNKNOWN_TYPE = "unknown_type"
REASONS = {
    TORN: "the line ends in its midst: the process or the machine died while it was written",
    NOT_JSON: "not JSON",
    WRONG_TYPE: "not an object, or a field is not of the type that the schema says",
    MISSING_HEADER: "v, run_id, node, boot, seq, hlc, mono_ns or type is missing",
    NEWER_VERSION: "written by a newer version of Strogoff than this one",
    UNKNOWN_TYPE: "an event type that the schema does not have",
}
"""Why a line is no row."""

_TYPES = {
    schema.STRING: T.StringType(),
    schema.INT: T.LongType(),
    schema.BOOL: T.BooleanType(),
    schema.MID: T.ArrayType(T.StringType()),
    schema.STRINGS: T.ArrayType(T.StringType()),
    schema.COUNTS: T.MapType(T.StringType(), T.LongType()),
}
_CORRUPT = "_corrupt"
_SPECIAL = re.compile(r"([\\{}\[\]*?])")


class SchemaError(Exception):
    """A table does not have the columns that a job needs. Its text names table, column and types."""


def struct() -> T.StructType:
    """The event log as a table: every field of the schema as a column, `null` where a row does not have it."""
    return T.StructType([T.StructField(each.name, _TYPES[each.kind]) for each in schema.COLUMNS.values()])


def require(table: DataFrame, name: str, columns: dict[str, T.DataType]) -> None:
    """Check before any work that `table` has these columns. Raises `SchemaError`."""
    found = {each.name: each.dataType for each in table.schema.fields}
    problems = [f"no column {column}" for column in columns if column not in found]
    problems += [
        f"column {column} is {found[column].simpleString()}, must be {kind.simpleString()}"
        for column, kind in columns.items()
        if column in found and found[column].simpleString() != kind.simpleString()
    ]
    if problems:
        raise SchemaError(f"{name}: {'; '.join(problems)}")


def columns(*names: str) -> dict[str, T.DataType]:
    """Columns of the event log with their types, for `require`."""
    return {name: _TYPES[schema.COLUMNS[name].kind] for name in names}


def read_lines(spark: SparkSession, directory: str) -> DataFrame:
    """The lines of all event log files below `directory` (a path or a URL): columns `line` and `path`."""
    # In a path without scheme, characters that are special in Hadoop's patterns stand for themselves.
    place = directory if "://" in directory else _SPECIAL.sub(r"\\\1", directory)
    reader = spark.read.option("recursiveFileLookup", True).option("pathGlobFilter", FILES)
    lines = reader.text(place).select(F.col("value").alias("line"), F.col("_metadata.file_path").alias("path"))
    return lines.where(F.length(F.trim("line")) > 0)


def parse(lines: DataFrame) -> DataFrame:
    """The event log's columns for each line, with `line`, `path` and `reject`: null, or why the line is no row."""
    require(lines, "lines", {"line": T.StringType(), "path": T.StringType()})
    wanted = struct().add(_CORRUPT, T.StringType())
    row = F.from_json("line", wanted, {"columnNameOfCorruptRecord": _CORRUPT})
    parsed = lines.select("line", "path", row.alias("row")).select("line", "path", "row.*")
    return parsed.withColumn("reject", _reject()).drop(_CORRUPT)


def rows(parsed: DataFrame) -> DataFrame:
    """The rows of the log, each once: a file that was copied twice into the directory changes nothing."""
    return parsed.where(F.col("reject").isNull()).dropDuplicates(["run_id", "node", "boot", "seq"])


def rejects(parsed: DataFrame) -> DataFrame:
    """The lines that are no rows: `path`, `node` and `boot` as the file's name has them, `reason`, `line`."""
    # Names are escaped once by the broker and once more by Spark's URL of the file.
    plain = F.url_decode("path")
    node = F.url_decode(F.regexp_extract(plain, r"/node=([^/]*)/[^/]*$", 1))
    boot = F.regexp_extract(plain, r"/boot=([0-9]+)-[^/]*$", 1).cast("long")
    bad = parsed.where(F.col("reject").isNotNull())
    return bad.select(
        F.regexp_replace(plain, "^file:(//)?", "").alias("path"),
        node.alias("node"),
        boot.alias("boot"),
        F.col("reject").alias("reason"),
        "line",
    )


def _reject() -> Column:
    line = F.rtrim("line")
    # A file system that lost power may leave zeros where the last line should be.
    cut = (line.startswith("{") & ~line.endswith("}")) | F.col("line").contains("\x00")
    missing = F.lit(False)
    for each in schema.HEADER:
        missing = missing | F.col(each.name).isNull()
    corrupt = F.when(F.try_parse_json("line").isNotNull(), WRONG_TYPE).when(cut, TORN).otherwise(NOT_JSON)
    return (
        F.when(F.col(_CORRUPT).isNotNull(), corrupt)
        .when(F.col("v") > schema.VERSION, NEWER_VERSION)
        .when(missing, MISSING_HEADER)
        .when(~F.col("type").isin(*schema.TYPES), UNKNOWN_TYPE)
    )

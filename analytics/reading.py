"""Reads the files of an event log. Each line becomes a row, or a reject with a reason."""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from . import schema

FILES = "boot=*-*.{jsonl,jsonl.open,jsonl.gz}"
"""Names of the files of an event log: complete, open (or left by a crash), and compressed."""

TORN = "torn"
NOT_JSON = "not_json"
WRONG_TYPE = "wrong_type"
MISSING_HEADER = "missing_header"
NEWER_VERSION = "newer_version"
UNKNOWN_TYPE = "unknown_type"
REASONS = {
    TORN: "the line is cut: the process or the machine stopped during the write",
    NOT_JSON: "not JSON",
    WRONG_TYPE: "not an object, or a field has another type than in the schema",
    MISSING_HEADER: "v, run_id, node, boot, seq, hlc, mono_ns or type is missing",
    NEWER_VERSION: "written by a newer version of Strogoff than this one",
    UNKNOWN_TYPE: "an event type that the schema lacks",
}
"""Reason of a reject -> meaning."""

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
    """A table lacks columns of a job. The text names table, column and types."""


def struct() -> T.StructType:
    """The type of the event log as a table: one column for each field of the schema, `null` if a row lacks it."""
    return T.StructType([T.StructField(each.name, _TYPES[each.kind]) for each in schema.COLUMNS.values()])


def require(table: DataFrame, name: str, columns: dict[str, T.DataType]) -> None:
    """Check that `table` has these columns. Raises `SchemaError`."""
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
    # in a path without scheme the special characters of Hadoop's patterns are literal
    place = directory if "://" in directory else _SPECIAL.sub(r"\\\1", directory)
    reader = spark.read.option("recursiveFileLookup", True).option("pathGlobFilter", FILES)
    lines = reader.text(place).select(F.col("value").alias("line"), F.col("_metadata.file_path").alias("path"))
    return lines.where(F.length(F.trim("line")) > 0)


def parse(lines: DataFrame) -> DataFrame:
    """The columns of the event log for each line, with `line`, `path` and `reject`: null, or the reason of a reject."""
    require(lines, "lines", {"line": T.StringType(), "path": T.StringType()})
    wanted = struct().add(_CORRUPT, T.StringType())
    row = F.from_json("line", wanted, {"columnNameOfCorruptRecord": _CORRUPT})
    parsed = lines.select("line", "path", row.alias("row")).select("line", "path", "row.*")
    return parsed.withColumn("reject", _reject()).drop(_CORRUPT)


def rows(parsed: DataFrame) -> DataFrame:
    """The rows of the log without duplicates, so that a second copy of a file changes nothing."""
    return parsed.where(F.col("reject").isNull()).dropDuplicates(["run_id", "node", "boot", "seq"])


def rejects(parsed: DataFrame) -> DataFrame:
    """The rejected lines: `path`, `node` and `boot` from the name of the file, `reason`, `line`."""
    # the broker escapes names, and Spark escapes the URL of the file again
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
    # after a power loss a file may have zeros instead of the last line
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

"""Reads the files of an event log. Each line becomes a row, or a reject with a reason.

`event_lines.py` defines the lines. Here the same is done by Spark's own expressions, so that no line passes Python. An
array needs the header line of its file, which may be in another partition: the header lines, one for each file, are a
small table that is joined by path. So Spark reads the files twice.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from . import schema
from .event_lines import (
    ENVELOPE,
    HEADER_BEGIN,
    MARK,
    MISSING_HEADER,
    NEWER_VERSION,
    NO_HEADER,
    NOT_JSON,
    TORN,
    UNKNOWN_TYPE,
    WRONG_TYPE,
)

FILES = "boot=*-*.{jsonl,jsonl.open,jsonl.gz}"
"""Names of the files of an event log: complete, open (or left by a crash), and compressed."""

_TYPES: dict[str, Any] = {
    schema.STRING: T.StringType(),
    schema.INT: T.LongType(),
    schema.BOOL: T.BooleanType(),
    schema.MID: T.ArrayType(T.StringType()),
    schema.STRINGS: T.ArrayType(T.StringType()),
    schema.COUNTS: T.MapType(T.StringType(), T.LongType()),
}
_HEADER = f"{MARK} bigint, run_id string, node string, boot bigint, types map<string, array<string>>"
_CONSTANTS = ("run_id", "node", "boot")
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
    """The columns of the event log for each line but header lines, with `line`, `path` and `reject`: null, or the
    reason of a reject. A header line that cannot be read is a reject, too."""
    require(lines, "lines", {"line": T.StringType(), "path": T.StringType()})
    found = lines.withColumns({"is_header": _is_header(), "is_array": F.ltrim("line").startswith("[")}).join(
        _headers(lines), "path", "left"
    )
    # rows of earlier versions: an object with all fields by name
    wanted = struct().add(_CORRUPT, T.StringType())
    text = F.when(~F.col("is_header") & ~F.col("is_array"), F.col("line"))
    found = found.withColumn("row", F.from_json(text, wanted, {"columnNameOfCorruptRecord": _CORRUPT}))
    found = found.withColumn("elements", F.from_json(F.when(F.col("is_array"), F.col("line")), "array<string>"))
    values = F.slice("elements", len(ENVELOPE) + 1, F.greatest(F.size("elements") - len(ENVELOPE), F.lit(0)))
    found = found.withColumn("names", F.try_element_at("header.types", _kind())).withColumn("values", values)
    names = F.slice("names", F.lit(1), F.size("values"))
    fields = F.when(F.size(names) == F.size("values"), F.map_from_arrays(names, F.col("values")))
    found = found.withColumn("fields", fields)
    reject = (
        F.when(F.col("is_header"), _reject_header())
        .when(F.col("is_array"), _reject_array())
        .otherwise(_reject_object())
    )
    parsed = found.select("line", "path", "is_header", *_columns(), reject.alias("reject"))
    return parsed.where(~F.col("is_header") | F.col("reject").isNotNull()).drop("is_header")


def _is_header() -> Column:
    return F.col("line").startswith(HEADER_BEGIN)


def _kind() -> Column:
    return F.get("elements", F.lit(0))


def _headers(lines: DataFrame) -> DataFrame:
    """The header line of each file: path, header, headers (how many different ones the file has)."""
    headers = lines.where(_is_header()).where(_reject_header().isNull())
    table = headers.groupBy("path").agg(F.first("line").alias("first"), F.countDistinct("line").alias("headers"))
    return F.broadcast(table.select("path", F.from_json("first", _HEADER).alias("header"), "headers"))


def _columns() -> list[Column]:
    """Each column of the log, from an object or from an array."""
    columns = []
    for name, each in schema.COLUMNS.items():
        if name == "v":
            value = F.when(F.col("is_array"), F.col(f"header.{MARK}"))
        elif name in ENVELOPE:
            value = _typed(each, F.get("elements", F.lit(ENVELOPE.index(name))))
        elif name in _CONSTANTS:
            value = F.when(F.col("is_array"), F.col(f"header.{name}"))
        else:
            value = _typed(each, F.try_element_at("fields", F.lit(name)))
        columns.append(F.coalesce(F.col(f"row.{name}"), value).alias(name))
    return columns


def _typed(field: schema.Field, text: Column) -> Column:
    kind = _TYPES[field.kind]
    if field.kind == schema.STRING:
        return text
    if field.kind in (schema.INT, schema.BOOL):
        return text.try_cast(kind)
    return F.from_json(text, kind)


def _reject_header() -> Column:
    header = F.from_json("line", _HEADER)
    missing = F.lit(False)
    for name in (MARK, *_CONSTANTS, "types"):
        missing = missing | header[name].isNull()
    return (
        F.when(F.try_parse_json("line").isNull(), TORN)
        .when(header[MARK] > schema.VERSION, NEWER_VERSION)
        .when(missing, WRONG_TYPE)
    )


def _reject_array() -> Column:
    missing = F.size("elements") < len(ENVELOPE)
    for at in range(len(ENVELOPE)):
        missing = missing | F.get("elements", F.lit(at)).isNull()
    wrong = F.col("fields").isNull()
    for at in range(1, len(ENVELOPE)):
        wrong = wrong | F.get("elements", F.lit(at)).try_cast("bigint").isNull()
    wrong = wrong | F.exists(F.map_entries("fields"), lambda each: _wrong(each["key"], each["value"]))
    return (
        F.when(F.col("elements").isNull(), F.when(_torn(), TORN).otherwise(NOT_JSON))
        .when(F.coalesce("headers", F.lit(0)) != 1, NO_HEADER)
        .when(missing, MISSING_HEADER)
        .when(F.col("names").isNull() | ~_kind().isin(*schema.TYPES), UNKNOWN_TYPE)
        .when(wrong, WRONG_TYPE)
    )


def _wrong(name: Column, text: Column) -> Column:
    """Whether a field that is not null has another type than in the schema."""
    wrong = F.lit(False)
    for kind, spark in _TYPES.items():
        names = [each.name for each in schema.FIELDS.values() if each.kind == kind]
        if kind in (schema.INT, schema.BOOL):
            wrong = wrong | (name.isin(*names) & text.try_cast(spark).isNull())
        elif kind != schema.STRING:
            wrong = wrong | (name.isin(*names) & F.from_json(text, spark).isNull())
    return text.isNotNull() & wrong


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


def _torn() -> Column:
    line = F.trim("line")
    cut_object = line.startswith("{") & ~line.endswith("}")
    cut_array = line.startswith("[") & ~line.endswith("]")
    # after a power loss a file may have zeros instead of the last line
    return cut_object | cut_array | F.col("line").contains("\x00")


def _reject_object() -> Column:
    missing = F.lit(False)
    for each in schema.HEADER:
        missing = missing | F.col(f"row.{each.name}").isNull()
    corrupt = F.when(F.try_parse_json("line").isNotNull(), WRONG_TYPE).when(_torn(), TORN).otherwise(NOT_JSON)
    return (
        F.when(F.col(f"row.{_CORRUPT}").isNotNull(), corrupt)
        .when(F.col("row.v") > schema.VERSION, NEWER_VERSION)
        .when(missing, MISSING_HEADER)
        .when(~F.col("row.type").isin(*schema.TYPES), UNKNOWN_TYPE)
    )

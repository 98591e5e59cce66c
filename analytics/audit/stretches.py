"""Which rows of each boot follow each other without a gap, as functions from table to table.

A *word* is 64 numbers (`seq`) of one boot in a row. One that has each of them once, and no row that says more about
the log, is a stretch as a whole. All other rows are stretches of one row. So the judge of boots reads few rows, and no
boot is sorted.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ...judge.anomalies.a00_log_hole import ALONE, FIELDS
from .. import reading

BOOT: Final = ["run_id", "node", "boot"]
"""The columns of one sequence of `seq`."""

_WORD: Final = 64
_NEEDED: Final = reading.columns(*BOOT, *FIELDS)
_END: Final = T.StructType([T.StructField(name, _NEEDED[name]) for name in FIELDS])


def words(events: DataFrame) -> DataFrame:
    """One row for each word of a boot.

    Columns: those of `BOOT`, word, events (rows), first_hlc and last_hlc, `full` if it is a stretch as a whole.
    """
    reading.require(events, "events", _NEEDED)
    bit = F.call_function("shiftleft", F.lit(1).cast("long"), F.col("seq").bitwiseAND(_WORD - 1).cast("int"))
    alone = F.max(F.when(F.col("type").isin(*ALONE), 1).otherwise(0)) > 0
    return events.groupBy(*BOOT, _word()).agg(
        F.count("*").alias("events"),
        F.min_by("hlc", "seq").alias("first_hlc"),
        F.max_by("hlc", "seq").alias("last_hlc"),
        ((F.bit_or(bit) == -1) & (F.count("*") == _WORD) & ~alone).alias("full"),
    )


def stretches(events: DataFrame, words: DataFrame) -> DataFrame:
    """One row for each stretch. Columns: those of `BOOT`, and `first` and `last`: what judges read of its two ends."""
    full = words.where("full").select(
        *BOOT,
        _end(F.col("word") * _WORD, "first_hlc", "first"),
        _end(F.col("word") * _WORD + _WORD - 1, "last_hlc", "last"),
    )
    there = F.struct(*FIELDS).cast(_END)
    other = events.withColumn("word", _word()).join(words.where("not full").select(*BOOT, "word"), [*BOOT, "word"])
    return full.unionByName(other.select(*BOOT, there.alias("first"), there.alias("last")))


def boots(words: DataFrame, stretches: DataFrame) -> DataFrame:
    """One row for each boot. Columns: those of `BOOT`, `first` and `last` row as in `stretches`, events, first_hlc and
    last_hlc: the smallest and the largest stamp."""
    ends = stretches.groupBy(*BOOT).agg(F.min("first").alias("first"), F.max("last").alias("last"))
    numbers = words.groupBy(*BOOT).agg(F.sum("events").alias("events"))
    return ends.join(numbers, BOOT)


def _word() -> Column:
    return F.shiftright("seq", _WORD.bit_length() - 1).alias("word")


def _end(seq: Column, hlc: str, name: str) -> Column:
    known = {"seq": seq, "hlc": F.col(hlc)}
    return F.struct(*(known.get(each, F.lit(None)).alias(each) for each in FIELDS)).cast(_END).alias(name)

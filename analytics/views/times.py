"""Times as columns: stamps of the log in milliseconds, and the hour, minute and second in which they are."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from .. import schema

SECOND_MS: Final = 1000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS


def ms_of(stamp: Column) -> Column:
    """The milliseconds since 1970 of a stamp (`hlc`)."""
    return F.shiftright(stamp, schema.LOGICAL_BITS)


def begin_ms(ms: Column, length_ms: int) -> Column:
    """The begin of the hour, minute or second in which a time is, in milliseconds since 1970."""
    return ms - F.pmod(ms, F.lit(length_ms).cast("long"))


def hour_of(stamp: Column) -> Column:
    """The hour of a stamp, as a timestamp."""
    return F.timestamp_millis(begin_ms(ms_of(stamp), HOUR_MS))

"""`strogoff analytics view`: one view of a log, for people or programs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .. import output, schema
from ..manifest import Unusable
from ..retrying import retry
from ..trouble import Trouble, check_source
from .registry import NAMES, view_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INCOMPLETE: Final = 4
"""The exit status if a part of the log was not understood."""

LIMIT: Final = 50
"""The number of rows that are printed."""

MOST: Final = 100_000
"""The largest such number: the driver holds these rows."""

LATEST_MS: Final = ((1 << 63) - 1) >> schema.LOGICAL_BITS
"""The latest time of a stamp, in the year 6429."""

_MINUTES = ("hour", "minute")


def add(jobs: Any, add_spark: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add the arguments of `view`."""
    lines = "\n".join(f"  {name:<12}{view_of(name).help}" for name in NAMES)
    view = jobs.add_parser(
        "view",
        help="one of the views of a log: " + ", ".join(NAMES),
        description=f"Print a view of a log.\n\nviews:\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    view.set_defaults(check=_check, job=_run)
    view.add_argument("view", metavar="NAME", choices=NAMES, help="a view, see above")
    view.add_argument("source", metavar="SOURCE", help="directory of the tables of an ingest, or of event logs")
    view.add_argument("--format", choices=["text", "json", "csv"], default="text", help="default: text")
    view.add_argument("--limit", metavar="N", type=_limit, default=LIMIT, help=f"print N rows; default: {LIMIT}")
    for name, what in (("--since", "from this time on"), ("--until", "before this time")):
        view.add_argument(
            name, metavar="TIME", type=time_ms, help=f"only events {what}, such as 2026-03-01T11:30 (UTC)"
        )
    add_spark(view)


def time_ms(text: str) -> int:
    """Milliseconds since 1970 of a time in ISO 8601, which is UTC if it names no zone. A time that no stamp can have is
    the first or the last one of stamps. Raises ArgumentTypeError."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r:.60} is no time; write it as 2026-03-01T11:30") from None
    ms = round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    return min(max(ms, 0), LATEST_MS)


def between(events: DataFrame, since_ms: int | None, until_ms: int | None) -> DataFrame:
    """The events from one time on, and before another one. None stands for no bound."""
    from pyspark.sql import functions as F

    for ms, is_begin in ((since_ms, True), (until_ms, False)):
        if ms is not None:
            stamp, day = F.col("hlc"), datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d")
            bound = F.lit(ms << schema.LOGICAL_BITS)
            events = events.where(stamp >= bound if is_begin else stamp < bound)
            # so Spark does not read the files of other days
            events = events.where(F.col("date") >= day if is_begin else F.col("date") <= day)
    return events


def shown(events: DataFrame, name: str, limit: int, form: str) -> str:
    """The first rows of a view as text of this form. Says how many more there are; for CSV, on standard error."""
    table = view_of(name).make(events).persist()
    try:
        rows = [row.asDict() for row in readable(table).limit(limit).collect()]
        more = table.count() - len(rows)
    finally:
        table.unpersist()
    omitted = f"{more} more rows; print them with a larger --limit\n" if more else ""
    if form == "json":
        found: dict[str, Any] = {"view": name, "rows": rows, "omitted": more}
        return output.as_json(found)
    if form == "csv":
        print(omitted, end="", file=sys.stderr)
        return output.as_csv(table.columns, rows)
    return output.as_text(table.columns, rows) + omitted


def readable(table: DataFrame) -> DataFrame:
    """Times as text in UTC, because Python would get timestamps in the time zone of this machine."""
    from pyspark.sql import functions as F

    times = [name for name, kind in table.dtypes if kind == "timestamp"]
    forms = {name: "yyyy-MM-dd'T'HH:mm" + ("'Z'" if name in _MINUTES else ":ss.SSS'Z'") for name in times}
    return table.withColumns({name: F.date_format(name, form) for name, form in forms.items()})


def _limit(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r:.60} is no number from 1 to {MOST}")
    return int(text)


def _check(arguments: argparse.Namespace) -> None:
    since, until = arguments.since, arguments.until
    if since is not None and until is not None and since > until:
        raise Trouble("--since is later than --until: no event is between them")
    check_source(arguments.source, "view")


def _run(spark: SparkSession, arguments: argparse.Namespace) -> int:
    try:
        text, gaps = retry(lambda: _made(spark, Path(arguments.scratch), arguments))
    except Unusable as trouble:
        raise Trouble(str(trouble)) from None
    print(text, end="")
    if not gaps:
        return 0
    print("".join(f"{each}\n" for each in gaps) + "so a part of the log is not counted", file=sys.stderr)
    return INCOMPLETE


def _made(spark: SparkSession, scratch: Path, arguments: argparse.Namespace) -> tuple[str, list[str]]:
    """The text of the view, and what of the log was not understood."""
    from .. import sources

    tables = sources.open_tables(spark, Path(arguments.source), scratch)
    events = between(tables.events, arguments.since, arguments.until)
    text = shown(events, arguments.view, arguments.limit, arguments.format)
    return text, sources.gaps(tables)

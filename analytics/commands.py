"""`strogoff analytics`: the jobs on event logs, from the command line."""

from __future__ import annotations

import argparse
import re
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from . import output, pack
from .audit import command as audit_command
from .follow import command as follow_command
from .generate import command as generate_command
from .interrupts import Interrupted, interruptible, java_may_be_gone
from .java import JavaMissing
from .manifest import Unusable
from .report import command as report_command
from .retrying import retry
from .stream import command as stream_command
from .trouble import Trouble as _Trouble
from .trouble import check_log, check_out, check_outside
from .views import command as view_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .ingest_report import Report

INCOMPLETE = 4
"""The exit status of an ingest that has not understood a part of the log."""

_EXAMPLE = 60

_UNREADABLE = re.compile(r"\[FAILED_READ_FILE\.NO_HINT\] .*? reading file (?:file:(?://)?)?(.+?\.jsonl[.a-z]*)\. ")

_MEMORY = re.compile(r"(\d{1,12})([kmgt])", re.IGNORECASE | re.ASCII)
_BITS = {"k": 10, "m": 20, "g": 30, "t": 40}
_LEAST_MEMORY = 512 << 20
"""Spark refuses a heap of less than 450 MiB."""


def run(arguments: argparse.Namespace) -> int:
    """Run a job. Returns its exit status, or 1 with the reason on standard error; 128 and its number after a signal."""
    try:
        check: Callable[[argparse.Namespace], None] = arguments.check
        check(arguments)
        alone: Callable[[argparse.Namespace], int] | None = getattr(arguments, "alone", None)
        return _run(arguments) if alone is None else alone(arguments)
    except (_Trouble, JavaMissing, OSError) as trouble:
        print(f"strogoff analytics: {trouble}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as signalled:
        print("strogoff analytics: interrupted", file=sys.stderr)
        return 128 + (signalled.number if isinstance(signalled, Interrupted) else signal.SIGINT)


def register(parser: argparse.ArgumentParser) -> None:
    """Add the jobs of `strogoff analytics`, each a subcommand with its arguments."""
    parser.description = "Jobs on event logs (eventlog.dir)."
    parser.set_defaults(run=run)
    jobs = parser.add_subparsers(required=True, metavar="JOB", dest="job")
    add_summary(jobs)
    add_ingest(jobs)
    audit_command.add(jobs, _add_spark)
    follow_command.add(jobs)
    generate_command.add(jobs)
    view_command.add(jobs, _add_spark)
    report_command.add(jobs, _add_spark)
    stream_command.add(jobs, _add_spark)
    pack.add(jobs)


def add_summary(jobs: Any) -> None:
    """Add the arguments of `summary`."""
    summary = jobs.add_parser(
        "summary",
        help="connects, publishes, deliveries and drops by node and hour, holes in the log, lines that are no events",
    )
    summary.set_defaults(check=_check_summary, job=_summary)
    summary.add_argument("logdir", metavar="LOGDIR", help="directory of one or more nodes' event logs, or a URL of one")
    summary.add_argument("--format", choices=["text", "json", "csv"], default="text", help="default: text")
    summary.add_argument("--out", metavar="DIR", help="also write the tables there as Parquet, rejected lines included")
    _add_spark(summary)


def add_ingest(jobs: Any) -> None:
    """Add the arguments of `ingest`."""
    ingest = jobs.add_parser("ingest", help="typed Parquet tables of event logs; reads only what is new")
    ingest.set_defaults(check=_check_ingest, alone=_ingest, job=_ingest_with_spark)
    ingest.add_argument("logdir", metavar="LOGDIR", help="directory of one or more nodes' event logs")
    ingest.add_argument("--out", metavar="DIR", required=True, help="directory of the tables, new or of earlier runs")
    ingest.add_argument("--format", choices=["text", "json"], default="text", help="default: text")
    _add_spark(ingest)


def _add_spark(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--master", metavar="URL", default="local[*]", help="the Spark cluster to run on; default: this machine"
    )
    job.add_argument(
        "--memory", metavar="SIZE", type=_memory, default="1g", help="memory of Spark's driver; default: 1g"
    )


def _memory(text: str) -> str:
    found = _MEMORY.fullmatch(text)
    if found is None or int(found[1]) << _BITS[found[2].lower()] < _LEAST_MEMORY:
        raise argparse.ArgumentTypeError(f"{text!r:.60} is no memory for Spark; write it as 512m or 2g, at least 512m")
    return text


def _check_summary(arguments: argparse.Namespace) -> None:
    check_log(arguments.logdir)
    _check_out(arguments.out)
    if arguments.out is not None:
        check_outside(arguments.out, arguments.logdir)


def _check_ingest(arguments: argparse.Namespace) -> None:
    if "://" in arguments.logdir:
        raise _Trouble(f"{arguments.logdir}: ingest needs a directory that this machine has, not a URL")
    check_out(arguments.out, "ingest")
    check_log(arguments.logdir)


def _check_out(out: str | None) -> None:
    if (
        out is not None
        and "://" not in out
        and Path(out).exists()
        and (Path(out).is_file() or any(Path(out).iterdir()))
    ):
        raise _Trouble(f"--out {out}: exists already and is not overwritten")


def _run(arguments: argparse.Namespace) -> int:
    try:
        from pyspark.sql import SparkSession

        from .spark import open_session
    except ImportError as error:
        raise _not_installed(error) from None
    ours = SparkSession.getActiveSession() is None
    # Spark may write to the scratch directory until it has stopped
    with tempfile.TemporaryDirectory(prefix="strogoff-job-", ignore_cleanup_errors=True) as arguments.scratch:
        with interruptible():
            spark = open_session(arguments.master, arguments.memory)
        try:
            job: Callable[[SparkSession, argparse.Namespace], int] = arguments.job
            with interruptible():  # again, because Spark has replaced the handler for Ctrl-C
                return job(spark, arguments)
        except Interrupted:
            with java_may_be_gone():
                spark.sparkContext.setLogLevel("OFF")  # Spark reports each task that its stop ends
            raise
        finally:
            if ours:
                with java_may_be_gone():
                    spark.stop()


def _not_installed(error: ImportError) -> _Trouble:
    return _Trouble(f"PySpark is not installed ({error}): pip install 'strogoff[analytics]'")


def _summary(spark: SparkSession, arguments: argparse.Namespace) -> int:
    from py4j.protocol import Py4JJavaError

    spark.sparkContext.setLogLevel("OFF")  # Spark logs the trace of each failed task, and raises it, too
    try:
        text = retry(lambda: summary(spark, arguments.logdir, arguments.format, arguments.out))
    except Py4JJavaError as error:
        file = unreadable_file(str(error))
        if file is None:
            raise
        advice = "`strogoff analytics ingest` keeps what stands in front of the damage"
        raise _Trouble(f"{file} cannot be read to its end; {advice}") from None
    spark.sparkContext.setLogLevel("ERROR")
    print(text, end="")
    return 0


def unreadable_file(error: str) -> str | None:
    """The file that Spark could not read to its end, as the text of its error names it; None for another error."""
    found = _UNREADABLE.search(error)
    return None if found is None else unquote(found[1])


def _ingest(arguments: argparse.Namespace) -> int:
    """Ingest, without Spark if nothing is new."""
    try:
        from .ingest_report import up_to_date
    except ImportError as error:
        raise _not_installed(error) from None
    try:
        report = up_to_date(Path(arguments.logdir), Path(arguments.out))
    except Unusable as trouble:
        raise _Trouble(str(trouble)) from None
    return _run(arguments) if report is None else _said(report, arguments)


def _ingest_with_spark(spark: SparkSession, arguments: argparse.Namespace) -> int:
    from .ingest import ingest

    try:
        report = retry(lambda: ingest(spark, Path(arguments.logdir), Path(arguments.out)))
    except Unusable as trouble:
        raise _Trouble(str(trouble)) from None
    return _said(report, arguments)


def _said(report: Report, arguments: argparse.Namespace) -> int:
    print(_ingested(report) if arguments.format == "text" else output.as_json(report.as_dict()), end="")
    return 0 if report.understood else INCOMPLETE


def summary(spark: SparkSession, logdir: str, form: str, out: str | None) -> str:
    """The job `summary`: read the log, compute, and write Parquet below `out` if given. Returns the text to print."""
    from . import reading
    from .summary import compact, summarize

    parsed = compact(reading.parse(reading.read_lines(spark, logdir))).persist()
    try:
        tables = summarize(parsed)
        hours = _records(_readable(tables.hours).orderBy("run_id", "node", "hour"))
        boots = _records(tables.boots.orderBy("run_id", "node", "boot"))
        rejects = _records(tables.rejects.orderBy("reason", "path"))
        if out is not None:
            tables.hours.write.parquet(f"{out}/hours")
            tables.boots.write.parquet(f"{out}/boots")
            reading.rejects(parsed).write.parquet(f"{out}/rejects")
    finally:
        parsed.unpersist()
    if form == "json":
        return output.as_json({"hours": hours, "boots": boots, "rejects": rejects})
    if form == "csv":
        for line in _warnings(boots, rejects):
            print(line, file=sys.stderr)
        return output.as_csv(tables.hours.columns, hours)
    return _text(tables.hours.columns, hours, tables.boots.columns, boots, rejects)


def _readable(hours: Any) -> Any:
    """Hours as text in UTC, because Python would get timestamps in the time zone of this machine."""
    from pyspark.sql import functions as F

    return hours.withColumn("hour", F.date_format("hour", "yyyy-MM-dd'T'HH:mm'Z'"))


def _records(table: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in table.collect()]


def _text(
    hour_columns: list[str],
    hours: list[dict[str, Any]],
    boot_columns: list[str],
    boots: list[dict[str, Any]],
    rejects: list[dict[str, Any]],
) -> str:
    parts = [output.as_text(hour_columns, hours), output.as_text(boot_columns, boots)]
    if rejects:
        short = [each | {"example": each["example"][:_EXAMPLE]} for each in rejects]
        parts.append(output.as_text(["reason", "lines", "path", "example"], short))
    warnings = _warnings(boots, rejects)
    if warnings:
        parts.append("\n".join(warnings) + "\n")
    return "\n".join(parts)


def _warnings(boots: list[dict[str, Any]], rejects: list[dict[str, Any]]) -> list[str]:
    """Warnings about numbers that may be too low."""
    lines = [
        f"node {each['node']}, boot {each['boot']}: {each['holes']} events are missing without a reason in the log"
        for each in boots
        if each["holes"]
    ]
    lines += [
        f"node {each['node']}, boot {each['boot']}: {each['given_up']} events were dropped (full queue or full disk)"
        for each in boots
        if each["given_up"]
    ]
    bad = sum(each["lines"] for each in rejects if each["reason"] != "torn")
    if bad:
        lines.append(f"{bad} lines are no events and are not counted; --out writes them with their reasons")
    return lines


def _ingested(report: Report) -> str:
    """What an ingest has done, and then what of the log it has not understood."""
    from .sources import not_understood

    lines = [
        f"{report.new} files new, {report.continued} continued, {report.unchanged} unchanged",
        f"{report.rows} rows read, {report.repeated} of them were there already",
    ]
    return "\n".join(lines + not_understood(report)) + "\n"

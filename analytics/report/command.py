"""`strogoff analytics report`: its arguments, and the run of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import output
from ..audit import command as audit_command
from ..event_lines import TORN
from ..manifest import Unusable
from ..retrying import retry
from ..trouble import Trouble, check_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .report_data import Report


def add(jobs: Any, add_spark: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add the arguments of `report`."""
    report = jobs.add_parser("report", help="one HTML page: was anything lost, doubled, reordered or refused?")
    report.set_defaults(check=check, job=run)
    report.add_argument("source", metavar="SOURCE", help="directory of event logs, or of the tables of an ingest")
    report.add_argument("--out", metavar="FILE", required=True, help="the page; a file that exists is replaced")
    report.add_argument("--json", metavar="FILE", help="also write everything that the page shows there, for programs")
    report.add_argument("--title", metavar="TEXT", default="Event log report", help="title of the page")
    add_spark(report)


def check(arguments: argparse.Namespace) -> None:
    """Find errors in the arguments before Spark starts. Raises `Trouble`."""
    check_source(arguments.source, "report")
    for name, file in (("--out", arguments.out), ("--json", arguments.json)):
        if file is None:
            continue
        if Path(file).is_dir():
            raise Trouble(f"{name} {file} is a directory; give a file")
        if not Path(file).absolute().parent.is_dir():
            raise Trouble(f"{name} {file}: there is no directory {Path(file).absolute().parent}; create it first")


def run(spark: SparkSession, arguments: argparse.Namespace) -> int:
    """Write the page. Returns the exit status."""
    # the other commands of this command line need neither the page nor the judges
    from .answers import reason
    from .page import page

    made, gaps = retry(lambda: _report(spark, arguments))
    _write(arguments.out, page(made))
    if arguments.json:
        _write(arguments.json, made.as_json())
    for each in [run for run in made.runs if not run.is_empty] or made.runs:
        print(output.printable(f"run {each.audit.run_id}: {each.audit.verdict}. {reason(each)}"))
    if gaps:
        print("".join(f"{each}\n" for each in gaps) + audit_command.NOT_CERTAIN)
    print(f"written to {arguments.out}")
    return status(made)


def status(report: Report) -> int:
    """Returns the exit status, by the rule of `audit`."""
    verdicts = [each.audit.verdict for each in report.runs] + [verdict for verdict, _ in report.other_runs]
    gaps = [each.reason for each in report.not_read if each.reason != TORN]
    return audit_command.status(verdicts, gaps)


def _report(spark: SparkSession, arguments: argparse.Namespace) -> tuple[Report, list[str]]:
    """The report, and what of the log was not understood."""
    from .. import sources
    from ..audit.auditing import audit
    from .collect import report

    try:
        tables = sources.open_tables(spark, Path(arguments.source), Path(arguments.scratch))
        made = report(tables, audit(spark, tables.events), arguments.title, arguments.source)
    except Unusable as trouble:
        raise Trouble(str(trouble)) from None
    return made, sources.gaps(tables)


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Trouble(f"{file} cannot be written: {error.strerror}; give another file") from None

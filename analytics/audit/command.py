"""`strogoff analytics audit`: what the judges say about a log."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .. import output
from ..retrying import retry
from ..schema import LOGICAL_BITS
from ..trouble import Trouble, check_out, check_source
from .run_audit import without_messages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...judge.findings import Finding
    from .run_audit import RunAudit

VALID: Final = 0
INVALID: Final = 3
UNKNOWN: Final = 4
"""Exit statuses."""
NOT_CERTAIN: Final = "so the verdicts are not known for certain"
"""Said behind the parts of a log that were not understood."""
LIMIT: Final = 10
"""So many findings of a kind are printed by default."""
_ENVELOPE: Final = ("v", "run_id", "node", "boot", "seq", "hlc", "mono_ns", "type", "file", "line", "offset")


def add(jobs: Any, add_spark: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add the arguments of `audit`."""
    audit = jobs.add_parser("audit", help="was anything lost, doubled, reordered or refused: findings with their rows")
    audit.set_defaults(check=check, job=run)
    audit.add_argument("source", metavar="SOURCE", help="directory of tables that ingest made, or of event logs")
    audit.add_argument("--out", metavar="DIR", help="write all findings there; of logs also the tables of an ingest")
    audit.add_argument("--run", dest="run_id", metavar="RUN_ID", help="judge this run alone; default: all")
    audit.add_argument("--format", choices=["text", "json"], default="text", help="default: text")
    audit.add_argument("--limit", metavar="N", type=int, default=LIMIT, help=f"findings of a kind; default: {LIMIT}")
    audit.add_argument("--explain", metavar="ID", help="print the finding with this id, and the rows that prove it")
    add_spark(audit)


def check(arguments: argparse.Namespace) -> None:
    """Check the arguments before Spark starts. Raises `Trouble`."""
    if arguments.limit < 0:
        raise Trouble(f"--limit {arguments.limit}: give a number of 0 or more")
    check_source(arguments.source, "audit")
    if arguments.out is not None:
        check_out(arguments.out, "audit")


def run(spark: SparkSession, arguments: argparse.Namespace) -> int:
    """Judge, write and print. Returns the exit status. Raises `Trouble`."""
    from ..manifest import Unusable

    source, out = Path(arguments.source), Path(arguments.out or arguments.scratch)
    try:
        return retry(lambda: _run(spark, source, out, arguments))
    except Unusable as trouble:
        raise Trouble(str(trouble)) from None


def _run(spark: SparkSession, source: Path, out: Path, arguments: argparse.Namespace) -> int:
    from pyspark.sql import functions as F

    from .. import sources
    from . import findings_table
    from .auditing import audited

    tables = sources.open_tables(spark, source, out)
    gaps = sources.gaps(tables)
    events = tables.events
    if arguments.run_id is not None:
        events = events.where(F.col("run_id") == arguments.run_id)
    with audited(spark, events, arguments.limit) as done:
        if not done.runs:
            raise Trouble(f"{source}: no events" + (f" of run {arguments.run_id}" if arguments.run_id else ""))
        if arguments.out:
            findings_table.write(done.findings, out)
        if arguments.explain is None:
            print(_json(done.runs, gaps) if arguments.format == "json" else text(done.runs, gaps), end="")
        else:
            found = findings_table.with_id(done.findings, arguments.explain)
            if not found:
                raise Trouble(f"no finding has the id {arguments.explain}; audit without --explain prints ids")
            rows = [findings_table.rows_of(each, events) for each in found]
            explained = _explained_json if arguments.format == "json" else _explained
            print(explained(found, rows), end="")
    return status([each.verdict for each in done.runs], gaps)


def status(verdicts: Sequence[str], gaps: Sequence[str]) -> int:
    """The exit status. The worst run decides; without a part of the log nothing is known."""
    if "invalid" in verdicts and not gaps:
        return INVALID
    return UNKNOWN if gaps or "unknown" in verdicts else VALID


def _json(runs: Sequence[RunAudit], gaps: Sequence[str]) -> str:
    found = [
        {**asdict(run), "findings": [{"id": each.id, **asdict(each)} for each in run.findings], "omitted": run.omitted}
        for run in runs
    ]
    return output.as_json({"runs": found, "gaps": [{"text": each} for each in gaps]})


def text(runs: Sequence[RunAudit], gaps: Sequence[str]) -> str:
    """The results for people."""
    parts = ["\n".join(_lines(each)) + "\n" for each in runs]
    if gaps:
        parts.append("".join(f"{each}\n" for each in gaps) + f"{NOT_CERTAIN}\n")
    return "\n".join(parts)


def _lines(run: RunAudit) -> Iterator[str]:
    """A run: what was promised and what happened, the kinds of findings, and the first findings of each kind."""
    yield output.printable(f"run {run.run_id}: {run.verdict}")
    nodes = "1 node" if len(run.nodes) == 1 else f"{len(run.nodes)} nodes"
    yield f"  {run.events} events of {nodes}, from {output.time_text(run.first_ms)} to {output.time_text(run.last_ms)}"
    yield f"  published {run.published}, acknowledged {run.acked}, delivered {run.delivered}"
    yield f"  waiting {run.waiting}, open {run.open}; judged as lost up to {output.time_text(run.known_up_to_ms)}"
    if run.dropped:
        yield f"  dropped {run.dropped} for reasons in the log: `strogoff analytics view drops` counts them"
    if not run.published:
        yield output.printable(f"  {without_messages(run.levels)}")
    if run.kinds:
        yield ""
        kinds = [replace(each, unsure=each.number) if run.doubts(each.anomaly) else each for each in run.kinds]
        yield output.as_text(["anomaly", "kind", "severity", "number", "unsure"], [*map(asdict, kinds)]).rstrip()
        yield ""
        columns = ["id", "time", "anomaly", "text"]
        yield output.as_text(columns, [_finding(run, each) for each in run.findings]).rstrip()
    if run.omitted:
        yield f"{run.omitted} more findings: --limit prints more, --out writes all"


def _finding(run: RunAudit, each: Finding) -> dict[str, Any]:
    sure = each.sure and not run.doubts(each.anomaly)
    text = each.text if sure else f"{each.text} (unsure: rows that decide may be lost)"
    return {
        "id": each.id,
        "time": output.time_text(each.at >> LOGICAL_BITS) if each.at else None,
        "anomaly": each.anomaly,
        "text": text,
    }


def _explained(found: Sequence[dict[str, Any]], rows: Sequence[Sequence[dict[str, Any]]]) -> str:
    parts = []
    for each, proof in zip(found, rows, strict=True):
        lines = [f"run {each['run_id']}: {each['anomaly']} {each['kind']}, {each['severity']}", f"  {each['text']}"]
        for row in proof:
            fields = " ".join(f"{name}={_value(value)}" for name, value in row.items() if name not in _ENVELOPE)
            time = output.time_text(row["hlc"] >> LOGICAL_BITS)
            lines.append(f"  {time} {row['node']} boot {row['boot']} row {row['seq']}: {row['type']} {fields}".rstrip())
            lines.append(f"    {row['file']}, line {row['line']}")
        missing = len(each["rows"]) - len(proof)
        if missing > 0:
            lines.append(f"  {missing} more rows")
        parts.append("".join(f"{output.printable(line)}\n" for line in lines))
    return "\n".join(parts)


def _explained_json(found: Sequence[dict[str, Any]], rows: Sequence[Sequence[dict[str, Any]]]) -> str:
    both = zip(found, rows, strict=True)
    return output.as_json({"findings": [{**each, "rows": proof} for each, proof in both]})


def _value(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)

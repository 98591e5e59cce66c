"""What the judges find in a log, in short."""

from __future__ import annotations

from strogoff.judge.findings import Finding
from strogoff.judge.run import judge

from ...testing.log_audit.log_builder import Log


def findings(log: Log, lifo: bool = False) -> list[Finding]:
    """Without A9: most tests leave the answer to a publisher out."""
    return [each for each in judge(log.rows, lifo).findings if each.anomaly != "A9"]


def kinds(log: Log, lifo: bool = False) -> list[tuple[str, str]]:
    """Anomaly and kind of each finding."""
    return [(each.anomaly, each.kind) for each in findings(log, lifo)]


def proof(found: Finding, log: Log) -> list[str]:
    """The types of the rows that prove a finding."""
    types = {(row["node"], row["boot"], row["seq"]): row["type"] for row in log.rows}
    return [types[each] for each in found.rows]


def split(log: Log, **healed: int) -> None:
    """A node is in a minority; with `healed`, it is in one no more."""
    kind = "split.heal" if healed else "split.detect"
    others = [each for each in "ab" if each != log.node]
    times = {"begin_ms": 1, "detected_ms": 1, "window_ms": 1, **healed}
    log.say(kind, nodes=others, incident=1, state="minority", counts={}, **times)

"""Compares what the judges find in the event log of a simulated run with what the checkers found in the run.

The judges read the rows of all nodes, the checkers what clients and disks know, and both know the same promises. So a
finding without a violation is a defect of the log, of a judge or of a checker. The same is true of a violation that a
log can show, without a finding.

Findings that are not sure, and those that break no rule, need no violation. A node that comes back with an old copy of
its disk writes rows under numbers that its log has already: such a log is not judged. Nor is one with a node whose
clock was a day ahead, if the run kept all promises: the other nodes ignored its stamps.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..judge.causes import pairs
from ..judge.findings import Finding
from ..judge.rows import Row, RowId, row_id
from ..judge.run import Report, judge
from .causes import Causes, inverted, is_inverted

EXPLAINS: Final[Mapping[str, frozenset[str]]] = {
    kind: frozenset(anomalies.split())
    for kind, anomalies in {
        "lost": "A1",
        "early ack": "A1 A2",
        "unexpected": "A3 A18",
        "duplicate": "A5",
        "reordered": "A6",
        "two owners": "A10",
        "amnesia": "A12",
        "zombie": "A13",
        "will lost": "A14",
        "will spurious": "A14",
        "will twice": "A14",
        "retained": "A16",
        "disagree": "A15",
        "policy": "A19",
        "two leases": "A21",
        "side": "A21",
    }.items()
}
"""Kind of a violation -> the anomalies that are the same promise."""
NOT_SHOWN: Final[Mapping[str, str]] = {
    "retained": "the log does not say which retained messages a SUBSCRIBE asks for",
    "disagree": "the log has the retained messages of the replicated map, and none of its other keys",
    "two leases": "the log does not say until when a lease lasts",
    "side": "the log does not say whom a node could reach",
}
"""Kinds of `EXPLAINS` that a log need not show, and why."""
WRONG: Final = frozenset(("fatal", "error"))
"""The severities of findings that need a violation."""
ROWS: Final = 8
"""So many rows of a finding are printed."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit of one run. `findings` counts those that are sure and wrong, by anomaly and kind. `differences` has a
    text for each one that no violation explains, for each violation without one, and for each row whose stamp is
    smaller than that of a cause. `hops` and `pairs`: so many causes and effects were compared, as the network and as
    the rows tell. `unjudged`: why the log was not judged; "" if it was."""

    findings: Mapping[str, int] = field(default_factory=dict)
    differences: tuple[str, ...] = ()
    hops: int = 0
    pairs: int = 0
    unjudged: str = ""


def audit(rows: Sequence[Row], violations: Sequence[str], causes: Causes, judged: bool = True) -> Audit:
    """Judge the event log of all nodes of a simulation, and compare. `violations` are those of the checkers. Without
    `judged` only the stamps are looked at."""
    found, differences, unjudged = Counter[str](), list(causes.problems), ""
    named = 0
    for cause, effect in pairs(rows):
        named += 1
        if is_inverted(cause, effect):
            differences.append(inverted(cause, effect))
    if judged:
        log = Log(rows)
        unjudged = log.unjudged
        if not unjudged:
            reports = [judge(of_run) for of_run in log.runs.values()]
            unjudged = "" if violations else _wrong_clock(reports)
        if not unjudged:
            wrong, different = _compared(log, reports, violations)
            found.update(wrong)
            differences += different
    return Audit(dict(found), tuple(differences), causes.hops, named, unjudged)


def _wrong_clock(reports: Iterable[Report]) -> str:
    """Returns what the judges say of a clock that was a day ahead; "" if there was none."""
    found = (each for report in reports for each in report.findings)
    return next((each.text for each in found if (each.anomaly, each.kind) == ("A0", "clock")), "")


def _compared(log: Log, reports: Iterable[Report], violations: Sequence[str]) -> tuple[list[str], list[str]]:
    findings: list[Finding] = []
    waiting = 0
    for report in reports:
        findings += [each for each in report.findings if each.severity in WRONG]
        waiting += report.waiting
    sure = [each for each in findings if each.sure]
    differences = [log.told(each) for each in sure if not any(explains(text, each) for text in violations)]
    for text in violations:
        waits = waiting and kind_of(text) == "lost"  # a message that waits for ever is in the log, and not lost there
        if is_shown(text) and not waits and not any(explains(text, each) for each in findings):
            differences.append(f"violation without a finding: {text}")
    return [f"{each.anomaly} {each.kind}" for each in sure], differences


def kind_of(violation: str) -> str:
    """Returns the kind of a violation: its text begins with it."""
    return violation.partition(":")[0]


def is_shown(violation: str) -> bool:
    """Whether a log must show this violation."""
    kind = kind_of(violation)
    return kind in EXPLAINS and kind not in NOT_SHOWN


def explains(violation: str, finding: Finding) -> bool:
    """Whether a violation is about the same promise as a finding, and about the same client or group. A finding that a
    member got a message twice does not name its group."""
    if finding.anomaly not in EXPLAINS.get(kind_of(violation), ()):
        return False
    client = finding.subject.client
    words = violation.replace(",", " ").split()
    if finding.anomaly == "A5" and any(word.startswith("$share/") for word in words):
        return True
    return not client or any(word == client or word.startswith(f"{client}-") for word in words)


class Log:
    """The rows of a simulation. `runs`: by run, because each is judged alone. `unjudged`: as in `Audit`."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.runs: defaultdict[str, list[Row]] = defaultdict(list)
        self.unjudged = ""
        self._by_id: dict[tuple[str, RowId], Row] = {}
        for row in rows:
            run, name = row["run_id"], row_id(row)
            if (run, name) in self._by_id:
                self.unjudged = f"two processes of {name[0]} have written rows as boot {name[1]}"
            self._by_id[run, name] = row
            self.runs[run].append(row)

    def told(self, finding: Finding) -> str:
        """Returns a finding with its rows, as text of several lines."""
        return "\n".join((f"finding without a violation: {finding} ({finding.kind})", *self._rows(finding)))

    def _rows(self, finding: Finding) -> Iterator[str]:
        for name in finding.rows[:ROWS]:
            for (_, known), row in self._by_id.items():
                if known == name:
                    yield f"        {name[0]} boot {name[1]} row {name[2]}: {row['type']} {_facts(row)}"
        if len(finding.rows) > ROWS:
            yield f"        and {len(finding.rows) - ROWS} more rows"


_HEADER: Final = frozenset(("v", "run_id", "node", "boot", "seq", "mono_ns", "type"))


def _facts(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _HEADER}


def summary(audits: Sequence[Audit]) -> Iterator[str]:
    """Returns lines about many audits; none without any."""
    if not audits:
        return
    found = Counter[str]()
    for each in audits:
        found.update(each.findings)
    told = ", ".join(f"{name}: {count}" for name, count in sorted(found.items())) or "none"
    differing = sum(bool(each.differences) for each in audits)
    hops, named = sum(each.hops for each in audits), sum(each.pairs for each in audits)
    yield f"event logs: {hops} hops, {named} pairs in rows; findings: {told}; {differing} logs differ"
    for why in sorted({each.unjudged for each in audits if each.unjudged}):
        yield f"not judged, {sum(each.unjudged == why for each in audits)} logs: {why}"

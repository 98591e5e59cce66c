"""Everything that the report shows, as plain data. Times are in ms since 1970 (UTC), unless a name says otherwise.

The page is made of this alone, and `as_json` gives the same to programs.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from ...judge.findings import Finding, Verdict
from ...judge.rows import RowId
from ..audit.run_audit import RunAudit
from ..event_lines import TORN

Ending = Literal["stopped", "killed", "open"]
"""How a boot ended: in order; without an orderly stop; or not before the end of the log."""

DROPS: Final = {
    "q.drop": "dropped from a queue",
    "q.expire": "expired in a queue",
    "fwd.drop": "not forwarded to a node",
}
"""Types of events with which a message is dropped, and what happened."""

REFUSALS: Final = {
    "conn.refuse": "CONNECT refused",
    "policy.deny": "operation refused",
    "ret.refuse": "retained message refused",
    "pub.ack": "PUBLISH refused",
}
"""Types of events with which something is refused (`pub.ack`: with a reason code from 128 on), and what happened."""


@dataclass(frozen=True, slots=True)
class Count:
    """How often something of one type was dropped or refused for one reason, when first and last, and where."""

    type: str
    reason: str
    number: int
    first_ms: int
    last_ms: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """What one node did in one interval. The times are from PUBLISH to PUBACK or PUBREC, of messages that the node
    received in the interval; None without any."""

    at_ms: int
    node: str
    published: int = 0
    acked: int = 0
    delivered: int = 0
    dropped: int = 0
    refused: int = 0
    p50_us: int | None = None
    p99_us: int | None = None


@dataclass(frozen=True, slots=True)
class Life:
    """One boot of a node, from its first row to its last one."""

    node: str
    boot: int
    begin_ms: int
    end_ms: int
    ending: Ending


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a node had no lease, because it saw a minority of the cluster."""

    node: str
    begin_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Split:
    """An incident at one node. From the last common contact (`begin_ms`) to the detection it did not know: that is the
    Window of Uncertainty. `healed_ms` is None if the log has no heal."""

    node: str
    name: str
    state: str
    begin_ms: int
    detected_ms: int
    healed_ms: int | None

    @property
    def window_ms(self) -> int:
        """How long the node went on before it knew."""
        return self.detected_ms - self.begin_ms


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that a test injected, as the log says."""

    at_ms: int
    type: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """A value of a setting that promises depend on, and the nodes where it was in force at any time."""

    key: str
    value: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The time axis: intervals of equal length, and lanes of nodes. `other_nodes`: how many nodes have no lane;
    `other_facts`: how many boots, incidents, faults, settings, or rows that tell them, are left out."""

    begin_ms: int
    end_ms: int
    interval_ms: int
    nodes: tuple[str, ...]
    lives: tuple[Life, ...] = ()
    minorities: tuple[Span, ...] = ()
    splits: tuple[Split, ...] = ()
    faults: tuple[Fault, ...] = ()
    points: tuple[Point, ...] = ()
    other_nodes: int = 0
    other_facts: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """A row that proves a finding: what it says, and its place in the log."""

    row: RowId
    at_ms: int
    type: str
    text: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A finding with the first of its rows."""

    finding: Finding
    rows: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class RunReport:
    """All about one run. `findings`: the first ones of each kind; `other_counts`: how many more reasons there are than
    in `counts`."""

    audit: RunAudit
    timeline: Timeline
    findings: tuple[Shown, ...] = ()
    counts: tuple[Count, ...] = ()
    other_counts: int = 0
    settings: tuple[Setting, ...] = ()

    @property
    def other_findings(self) -> int:
        """How many findings `findings` lacks."""
        return sum(each.number for each in self.audit.kinds) - len(self.findings)

    @property
    def is_empty(self) -> bool:
        """Whether the run has nothing to show but its verdict: a node before it joined a cluster has such a run."""
        return not (self.audit.kinds or self.counts or self.timeline.points)

    def total(self, types: dict[str, str]) -> int:
        """Returns how often something happened, of `DROPS` or of `REFUSALS`."""
        return sum(each.number for each in self.counts if each.type in types)


@dataclass(frozen=True, slots=True)
class NotRead:
    """A part of the log that is in no table: why, where, how much, and an example."""

    reason: str
    place: str
    number: int = 1
    example: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The whole page. `source` is what was read, as the user named it; `other_runs`: how many runs, by verdict, have no
    part of the page."""

    title: str
    source: str
    runs: tuple[RunReport, ...] = ()
    not_read: tuple[NotRead, ...] = ()
    other_not_read: int = 0
    other_runs: tuple[tuple[Verdict, int], ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the tables have everything. A line that a crash has cut is expected."""
        return all(each.reason == TORN for each in self.not_read)

    def as_json(self) -> str:
        """Returns the same for programs. Findings have their ids."""
        plain: dict[str, Any] = asdict(replace(self, runs=()))
        plain["runs"] = [_run(each) for each in self.runs]
        return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def _run(run: RunReport) -> dict[str, Any]:
    plain: dict[str, Any] = asdict(replace(run, audit=replace(run.audit, findings=())))
    del plain["audit"]["findings"]
    for shown, each in zip(run.findings, plain["findings"], strict=True):
        each["finding"]["id"] = shown.finding.id
    return plain

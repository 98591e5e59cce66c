"""The result of an audit: what the judges say about the log of one run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from ...judge.findings import Finding, Severity, Verdict


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of anomaly, and how often it was found."""

    anomaly: str
    kind: str
    severity: Severity
    number: int
    unsure: int
    """How many of them rest on rows that may have been in a lost part of a log."""


@dataclass(frozen=True, slots=True)
class RunAudit:
    """What was judged of one run, and how. Times are in ms since 1970. `published` and the next four are counts as in
    `judge.run.Report`. `kinds` counts all findings; `findings` has the first ones of each kind, in the order of
    `judge.findings.in_order`."""

    run_id: str
    nodes: tuple[str, ...]
    events: int
    first_ms: int
    last_ms: int
    known_up_to_ms: int
    """What was acknowledged later is not judged as lost: the log of a node may end there."""
    verdict: Verdict
    published: int = 0
    acked: int = 0
    delivered: int = 0
    waiting: int = 0
    open: int = 0
    kinds: tuple[Kind, ...] = ()
    findings: tuple[Finding, ...] = field(default=())
    dropped: int = 0
    """How often the log gives a reason for which a client or a node did not get a message: a full queue, for example.
    No promise is broken then, and yet somebody lacks the message."""
    levels: tuple[str, ...] = ()
    """The values of eventlog.level with which boots began; they tell whether messages are in the log."""

    @property
    def holes(self) -> tuple[Kind, ...]:
        """The kinds of findings that say that rows of the log are missing."""
        return tuple(each for each in self.kinds if each.anomaly == "A0" and each.severity == "fatal")

    def doubts(self, anomaly: str) -> bool:
        """Whether missing rows may explain all findings of this anomaly. That they are missing is sure."""
        return anomaly != "A0" and bool(self.holes)

    @property
    def omitted(self) -> int:
        """How many findings `findings` lacks."""
        return sum(each.number for each in self.kinds) - len(self.findings)


def without_messages(levels: Collection[str]) -> str:
    """Says that a log has no messages, and at which levels. Level `message` is no reason for that: nobody published."""
    why = f" (eventlog.level = {', '.join(levels)})" if {*levels} - {"message"} else ""
    return f"the log has no messages{why}"

"""Judges the event log of a test with `strogoff.judge`, and gives the findings names that tests read well.

The definitions of the anomalies are in docs/anomalies.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...judge.alerts import DROP_TYPES, drop_reason
from ...judge.findings import Finding, Verdict
from ...judge.rows import MessageId, Row
from ...judge.run import judge


@dataclass(frozen=True)
class Case:
    """An anomaly of one message and one session; `kind` names it."""

    kind: str
    message_id: MessageId
    client: str
    session: int
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass
class WillCase:
    """An anomaly of a will. `kind`: lost, dup (published twice) or spurious (published although not due)."""

    client: str
    kind: str


@dataclass
class Audit:
    """The result of an audit: counts, and findings by anomaly and time.

    The kinds of `lost_acked` (A1) are
    stale-route: the node that accepted the message did not route it to the session;
    forward: it was sent to the session's node, and did not arrive there;
    queue: the session's queue never had the message, or a kill removed it from the queue;
    overtaken: the session was sent a later message of the same publisher, and never this one;
    not-resent: the broker did not send the message again when the session was resumed;
    gone: the session's queue has fewer messages than the log says.

    `duplicates` (A4) are of QoS 1: the standard allows them, so they do not make a run invalid. `qos2_violations` (A5)
    do. `amnesia` (A12) has client ids, `wills` (A14) client ids and kinds, `holes` (A0) the missing parts of the log.
    """

    published: int = 0
    acked: int = 0
    delivered: int = 0
    waiting: int = 0
    """Acknowledged messages, per session, that still wait for their subscriber."""
    verdict: Verdict = "valid"
    """`unknown` if the log has a hole, `invalid` if a promise was broken, else `valid`."""
    findings: list[Finding] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    """Reason -> messages that the broker dropped, per session, as its configuration or the standard allows. It is no
    anomaly: a test that wants every message asserts that it is empty."""

    @property
    def lost_acked(self) -> list[Case]:
        """A1: messages that were lost although acknowledged."""
        return self._cases("A1")

    @property
    def unexpected(self) -> list[Case]:
        """A3: messages that a session should not have got."""
        return self._cases("A3")

    @property
    def duplicates(self) -> list[Case]:
        """A4: messages of QoS 1 that were sent again after their acknowledgement."""
        return self._cases("A4")

    @property
    def qos2_violations(self) -> list[Case]:
        """A5: messages of QoS 2 that an application gets more than once."""
        return self._cases("A5")

    @property
    def reordered(self) -> list[Case]:
        """A6: messages that were sent behind a later one."""
        return self._cases("A6")

    @property
    def amnesia(self) -> list[str]:
        """A12: clients whose session was forgotten."""
        return [each.subject.client for each in self.findings if each.anomaly == "A12"]

    @property
    def wills(self) -> list[WillCase]:
        """A14: wills that were lost, doubled, or not due."""
        return [WillCase(each.subject.client, each.kind) for each in self.findings if each.anomaly == "A14"]

    @property
    def holes(self) -> list[str]:
        """A0: parts of the log that are missing."""
        return [
            each.text.removeprefix(HOLE) for each in self.findings if each.anomaly == "A0" and each.severity == "fatal"
        ]

    def problems(self) -> list[str]:
        """Returns a line for each anomaly, including duplicates. `findings` also has metrics and what is allowed."""
        found = [each for each in self.findings if each.severity in ("fatal", "error") or each.anomaly == "A4"]
        return [f"{each.anomaly} {_PREFIX.get(each.anomaly, '')}{each.text}" for each in found]

    def _cases(self, anomaly: str) -> list[Case]:
        return [_case(each) for each in self.findings if each.anomaly == anomaly]

    def __str__(self) -> str:
        return "\n".join([self.summary, *self.problems()])

    @property
    def summary(self) -> str:
        """The verdict and the counts, in one line."""
        counts = f"{self.published} published, {self.acked} acknowledged, {self.delivered} delivered"
        drops = "".join(f", {count} dropped ({reason})" for reason, count in sorted(self.dropped.items()))
        return f"{self.verdict}: {counts}, {self.waiting} waiting{drops}"


HOLE = "hole in the log: "
_PREFIX = {"A1": "lost, ", "A3": "unexpected, ", "A4": "duplicate, ", "A5": "QoS 2, ", "A6": "reordered, "}


def audit(rows: Iterable[Row], lifo: bool = False) -> Audit:
    """Judge the rows of one run, of all nodes and boots, in any order. `lifo` queues are not judged for order.

    A subscription counts from its SUBACK. A message that has entered a queue, and has no later row, counts as waiting;
    but if the log has the depth of the queue after that (q.depth), no more than so many.
    """
    known = list(rows)
    report = judge(known, lifo)
    counts = report.published, report.acked, report.delivered, report.waiting
    dropped = Counter(drop_reason(row) for row in known if row["type"] in DROP_TYPES)
    return Audit(*counts, report.verdict, report.findings, dropped)


def _case(found: Finding) -> Case:
    subject = found.subject
    assert subject.message is not None
    return Case(found.kind, subject.message, subject.client, subject.session, found.text)

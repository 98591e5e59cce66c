"""A finding: an anomaly, whom it concerns, and the rows that prove it.

The id of a finding depends on anomaly, kind and subject alone. So the same log gives the same ids, in whatever order
its files are read, and an alert that was given once is known when it comes again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from .rows import MessageId, Owner, RowId

Severity = Literal["fatal", "error", "info", "metric"]
"""fatal: a promise was broken; error: something is wrong, but no promise; info: allowed, and worth knowing; metric: a
number."""
Verdict = Literal["valid", "invalid", "unknown"]


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom or what a finding concerns. Fields that do not apply are empty. `session` is the number of the client's
    session on `node`, from 1. `detail` tells apart what has no name of its own, such as the first missing row."""

    node: str = ""
    mountpoint: str = ""
    client: str = ""
    session: int = 0
    message: MessageId | None = None
    topic: str = ""
    detail: str = ""

    @classmethod
    def of(cls, owner: Owner, session: int = 0, message: MessageId | None = None, detail: str = "") -> Subject:
        """Returns the subject for a client's session, and a message for it."""
        return cls(*owner, session, message, "", detail)

    def words(self) -> tuple[str, ...]:
        """Returns all fields as texts, equal for equal subjects only."""
        message = ("", "", "") if self.message is None else tuple(map(str, self.message))
        return self.node, self.mountpoint, self.client, str(self.session), *message, self.topic, self.detail


def finding_id(anomaly: str, kind: str, subject: Subject) -> str:
    """Returns the id of a finding: 16 hexadecimal digits."""
    words = "\0".join((anomaly, kind, *subject.words()))
    return blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Finding:
    """An anomaly of one kind. `at` is the stamp where it shows. `text` is for people. `rows` prove it, oldest first. It
    is `sure` unless rows that decide it may have been in a part of a log that was lost."""

    anomaly: str
    kind: str
    severity: Severity
    subject: Subject
    at: int
    text: str
    rows: tuple[RowId, ...] = ()
    sure: bool = True
    value: int = 0
    """Of a metric: the number. Of other findings: how often, if that can be more than once."""

    @property
    def id(self) -> str:
        """16 hexadecimal digits."""
        return finding_id(self.anomaly, self.kind, self.subject)

    def __str__(self) -> str:
        return f"{self.anomaly} {self.text}"


def of_message(
    anomaly: str, kind: str, severity: Severity, subject: Subject, what: tuple[int, str, int], rows: tuple[RowId, ...]
) -> Finding:
    """Returns a finding about one message and one session. `what`: stamp of its PUBLISH, topic, QoS."""
    assert subject.message is not None
    node, boot, counter = subject.message
    at, topic, qos = what
    where = f" on {topic} with QoS {qos}" if topic else ""
    text = f"{kind}: message {counter} of {node} (boot {boot}){where}, for {subject.client}, session {subject.session}"
    return Finding(anomaly, kind, severity, subject, at, text, rows)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Returns the findings by anomaly, then by time."""
    return sorted(findings, key=lambda each: (int(each.anomaly[1:]), each.at, each.kind, each.subject.words()))


def verdict(findings: Iterable[Finding]) -> Verdict:
    """`unknown` if rows are missing, or what decides a broken promise may be; `invalid` if a promise was broken."""
    return verdict_of((each.anomaly, each.severity, each.sure) for each in findings)


def verdict_of(found: Iterable[tuple[str, Severity, bool]]) -> Verdict:
    """The same by anomaly, severity and `sure` of the findings."""
    verdict: Verdict = "valid"
    for anomaly, severity, sure in found:
        if severity == "fatal":
            if anomaly == "A0":
                return "unknown"
            if sure:
                verdict = "invalid"
            elif verdict == "valid":
                verdict = "unknown"
    return verdict

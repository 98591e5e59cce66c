"""What a planted log must lead to."""

from __future__ import annotations

from dataclasses import dataclass

from ..findings import Severity, Subject, finding_id


@dataclass(frozen=True, slots=True)
class Expected:
    """A finding that the judges must have; `case` planted it, "" for the load in the background."""

    anomaly: str
    kind: str
    subject: Subject
    severity: Severity
    sure: bool = True
    case: str = ""

    @property
    def id(self) -> str:
        """The id of the finding."""
        return finding_id(self.anomaly, self.kind, self.subject)

"""What a planted log must lead to."""

from __future__ import annotations

from strogoff.judge.findings import Finding, Subject
from strogoff.judge.planted.expected import Expected


def test_its_id_is_that_of_the_finding() -> None:
    subject = Subject("n", "", "rx", 1, ("n", 1, 7))
    expected = Expected("A1", "queue", subject, "fatal", case="killed")
    assert expected.id == Finding("A1", "queue", "fatal", subject, 5, "text").id

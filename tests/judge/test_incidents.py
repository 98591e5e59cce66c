"""Incidents of nodes."""

from __future__ import annotations

from strogoff.judge.incidents import Incidents
from strogoff.judge.rows import NEVER


def test_a_node_is_in_an_incident_from_detection_to_heal() -> None:
    found = Incidents()
    for hlc, kind, node in ((1, "split.heal", "a"), (5, "split.detect", "a"), (9, "split.heal", "a")):
        found.note({"type": kind, "node": node, "boot": 1, "seq": hlc, "hlc": hlc, "state": "majority"})
    assert [found.contains("a", stamp) for stamp in (4, 5, 8, 9)] == [False, True, True, False]
    assert not found.contains("b", 5) and len(found.all) == 1


def test_an_incident_ends_with_the_next_start() -> None:
    """A boot that dies in an incident never writes its heal."""
    found = Incidents()
    row = {"type": "split.detect", "node": "a", "boot": 1, "seq": 1, "hlc": 5, "state": "majority"}
    found.note(row)
    assert found.last_heal(("a", "b")) == NEVER and found.last_heal(("b",)) == -1
    for node in ("b", "a"):
        found.started({"type": "node.start", "node": node, "boot": 2, "seq": 1, "hlc": 9})
    assert found.last_heal(("a", "b")) == 9 and not found.contains("a", 9)

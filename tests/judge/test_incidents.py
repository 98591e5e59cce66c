"""Incidents of nodes."""

from __future__ import annotations

from strogoff.judge.incidents import Incidents


def test_a_node_is_in_an_incident_from_detection_to_heal() -> None:
    found = Incidents()
    for hlc, kind, node in ((1, "split.heal", "a"), (5, "split.detect", "a"), (9, "split.heal", "a")):
        found.note({"type": kind, "node": node, "boot": 1, "seq": hlc, "hlc": hlc, "state": "majority"})
    assert [found.contains("a", stamp) for stamp in (4, 5, 8, 9)] == [False, True, True, False]
    assert not found.contains("b", 5) and len(found.all) == 1

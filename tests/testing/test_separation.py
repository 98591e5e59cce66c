"""Who was away from whom, and who was without a lease."""

from __future__ import annotations

from typing import Any

from strogoff.testing.separation import NEVER, Separation


def read(*rows: dict[str, Any]) -> Separation:
    found = Separation()
    for place, row in enumerate(rows):
        found.note(place, row)
    return found


def test_a_node_is_away_from_down_to_up() -> None:
    """For the node whose view says it, and a span counts that only touches it."""
    found = read(
        {"type": "mem.up", "node": "a", "target": "b"},
        {"type": "mem.down", "node": "a", "target": "b"},
        {"type": "mem.down", "node": "a", "target": "c"},
        {"type": "mem.up", "node": "a", "target": "b"},
    )
    assert found.away("a", "b", 0, 1) and found.away("a", "b", 2, 9) and not found.away("a", "b", 3, 9)
    assert found.away("a", "c", 100, 101) and not found.away("b", "a", 0, 9)


def test_a_node_is_alone_from_detection_to_heal() -> None:
    """Or until it is in a majority, or starts anew."""
    rows = [
        {"type": "split.detect", "node": "a", "state": "minority"},
        {"type": "split.change", "node": "a", "state": "minority"},
        {"type": "split.change", "node": "a", "state": "majority"},
        {"type": "split.change", "node": "a", "state": "minority"},
    ]
    found = read(*rows)
    assert found.alone("a", 1) == (0, 2) and found.alone("a", 2) is None and found.alone("a", 9) == (3, NEVER)
    for end in ("split.heal", "node.start"):
        assert read(*rows, {"type": end, "node": "a"}).alone("a", 3) == (3, 4)
    assert found.alone("b", 0) is None

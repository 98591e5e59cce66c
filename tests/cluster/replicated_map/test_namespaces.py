"""The spaces of the map, and the winner among siblings."""

from __future__ import annotations

from strogoff.cluster.replicated_map.namespaces import NAMESPACES, Versioned, latest


def test_the_highest_stamp_wins_and_dots_decide_between_equals() -> None:
    early, late = Versioned(1, "z", 9, 9, b"z"), Versioned(2, "a", 1, 1, b"a")
    assert latest([early, late]) == latest([late, early]) == late
    twin = Versioned(2, "b", 1, 1, b"0")
    assert latest([late, twin]) == latest([twin, late]) == twin


def test_only_routes_to_clean_sessions_are_forgotten_by_a_restart() -> None:
    assert [letter for letter, space in NAMESPACES.items() if not space.durable] == [b"f"]

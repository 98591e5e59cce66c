"""The clocks that other nodes have reported."""

from __future__ import annotations

from strogoff.cluster.replicated_map.actors import Actors
from strogoff.cluster.replicated_map.messages import Part
from strogoff.cluster.replicated_map.peer_clocks import PeerClocks


def test_reports_in_any_order_are_joined() -> None:
    actors = Actors()
    known, me = PeerClocks(actors), actors.number("a", 1)
    assert known.heard("b", 1)
    known.reported("b", [Part(0, [("a", 1)], [[0, 5]], {})])
    known.reported("b", [Part(0, [("a", 1)], [[0, 3]], {})])
    assert known.of(["b"], 0)[0].base(me) == 5
    assert known.of(["b", "c"], 1)[1].base(me) == 0


def test_a_later_boot_starts_without_reports_and_an_earlier_one_is_ignored() -> None:
    actors = Actors()
    known, me = PeerClocks(actors), actors.number("a", 1)
    known.heard("b", 1)
    known.reported("b", [Part(0, [("a", 1)], [[0, 5]], {})])
    assert known.heard("b", 2)
    assert known.of(["b"], 0)[0].base(me) == 0
    assert not known.heard("b", 1)
    assert known.boot("b") == 2


def test_an_earlier_boot_is_ignored_once_a_later_one_is_known() -> None:
    """A report with a write of the later boot allows the other nodes to fold the earlier one."""
    actors = Actors()
    known = PeerClocks(actors)
    assert known.heard("b", 1)
    known.heard("c", 1)
    known.reported("c", [Part(0, [("b", 2)], [[0, 5]], {})])
    assert not known.heard("b", 1)
    assert known.heard("b", 2)

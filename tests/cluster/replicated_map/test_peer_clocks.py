"""What other nodes have said."""

from __future__ import annotations

from strogoff.cluster.replicated_map.actors import Actors
from strogoff.cluster.replicated_map.messages import Part
from strogoff.cluster.replicated_map.peer_clocks import PeerClocks


def test_reports_that_overtake_each_other_are_joined() -> None:
    actors = Actors()
    known, me = PeerClocks(actors), actors.number("a", 1)
    assert known.heard("b", 1)
    known.reported("b", [Part(0, [("a", 1)], [[0, 5]], {})])
    known.reported("b", [Part(0, [("a", 1)], [[0, 3]], {})])
    assert known.of(["b"], 0)[0].base(me) == 5
    assert known.of(["b", "c"], 1)[1].base(me) == 0


def test_a_later_boot_has_said_nothing_yet_and_an_earlier_one_is_not_heard() -> None:
    actors = Actors()
    known, me = PeerClocks(actors), actors.number("a", 1)
    known.heard("b", 1)
    known.reported("b", [Part(0, [("a", 1)], [[0, 5]], {})])
    assert known.heard("b", 2)
    assert known.of(["b"], 0)[0].base(me) == 0
    assert not known.heard("b", 1)
    assert known.boot("b") == 2


def test_an_earlier_boot_is_not_heard_once_others_have_told_of_a_later_one() -> None:
    """Who says that it has a write of the later one allows the others to fold the earlier one."""
    actors = Actors()
    known = PeerClocks(actors)
    assert known.heard("b", 1)
    known.heard("c", 1)
    known.reported("c", [Part(0, [("b", 2)], [[0, 5]], {})])
    assert not known.heard("b", 1)
    assert known.heard("b", 2)

"""The whole cluster starts again, one node after the other (P1, P4; review, holes 1 and 4)."""

from __future__ import annotations

import pytest

from strogoff.netsplit.policy import ViewState
from tests.broker.theatre import Theatre

MAJORITY = {f"allow_{each}_during_netsplit": "majority" for each in ("register", "publish", "subscribe", "unsubscribe")}


@pytest.mark.parametrize("last", (1, 2, 3))
def test_who_starts_first_does_not_serve_before_it_knows_the_sessions_of_the_others(last: int) -> None:
    """Only the node of a session tells of it: a publish accepted before it has come would not be matched with it."""
    theatre = Theatre(3, **MAJORITY)
    reader = theatre[last].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("t", 1))
    for spot in theatre.spots:
        spot.kill(power=True)
    first = last % 3 + 1
    for number in (1, 2, 3):
        if number != last:
            theatre[number].start()
    theatre.pass_s(1.5)
    theatre[last].start()
    theatre.until(lambda: theatre[first].node.view_state is not ViewState.MINORITY)
    assert theatre[first].client("writer").publish("t", b"m", 1)[0].reason == 0
    reader = theatre[last].client("reader", clean=False, expiry_s=600)
    assert [each.payload for each in reader.drain()] == [b"m"]

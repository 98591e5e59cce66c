"""The limit of bytes on their way to a peer."""

from __future__ import annotations

import pytest

from strogoff.cluster.links.flight import BYTES_PER_UNIT, ITEM_UNITS, MOST_UNITS, UNITS_PER_MS, Flight
from strogoff.cluster.links.frames import MalformedFrame
from strogoff.cluster.links.ports import Lane
from strogoff.cluster.links.settings import LinkSettings

from .link_harness import LinkHarness


def test_frames_wait_until_the_peer_has_handled_enough() -> None:
    flight = Flight(10 * ITEM_UNITS)
    for _ in range(2):
        assert not flight.full
        flight.sent(5, 0, 0.0)
    assert flight.full
    flight.taken(1, 0.001)
    assert not flight.full
    flight.taken(1, 0.001)
    flight.sent(5, 0, 0.001)
    assert flight.full
    flight.begin()
    assert not flight.full


def test_a_large_frame_goes_alone() -> None:
    flight = Flight(1)
    flight.sent(1, 1000 * BYTES_PER_UNIT, 0.0)
    assert flight.full
    flight.taken(1, 0.0)
    assert not flight.full


def test_the_limit_grows_with_the_round_trip_time() -> None:
    """The shortest time counts: a busy peer is not a distant peer."""
    flight = Flight(100)
    assert flight.limit == 100
    flight.sent(1, 0, 0.0)
    flight.taken(1, 50.0)
    assert flight.limit == 50 * UNITS_PER_MS
    flight.sent(1, 0, 100.0)
    flight.taken(2, 1000.0)
    assert flight.limit == 50 * UNITS_PER_MS
    flight.sent(1, 0, 1000.0)
    flight.taken(3, 1000.001)
    assert flight.limit == 100
    flight.begin()
    flight.sent(1, 0, 0.0)
    flight.taken(1, 1e6)
    assert flight.limit == MOST_UNITS


def test_a_peer_cannot_confirm_frames_that_were_not_sent() -> None:
    flight = Flight(1)
    flight.sent(1, 1, 0.0)
    with pytest.raises(MalformedFrame, match="2 frames handled, 1 sent"):
        flight.taken(2, 0.0)


def test_waiting_frames_are_sent_as_the_peer_handles_earlier_ones() -> None:
    """Over a link: never more in flight than the limit and one frame; everything arrives, also after a break."""
    world = LinkHarness(settings=LinkSettings(gather_bytes=100, flight_units=2 * ITEM_UNITS))
    a, b = world.pair()
    sent = [b"%d" % number for number in range(500)]
    most = 0
    for payload in sent:
        a.links.send("b", Lane.PUBLISH, payload)
    link = a.links._out["b"]
    for turn in range(3000):
        world.loop.turn()
        most = max(most, link._flight._units)
        if turn == 40:
            assert 0 < len(b.items(Lane.PUBLISH)) < 500
            world.network.drop("a", "b")
    world.loop.run_for(3)
    assert b.items(Lane.PUBLISH) == sent
    frame = 100 // 17 * ITEM_UNITS + ITEM_UNITS + 5
    assert 2 * ITEM_UNITS <= most <= 2 * ITEM_UNITS + frame

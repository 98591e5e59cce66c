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


def test_an_acknowledgement_says_too_that_the_frame_was_handled() -> None:
    world = LinkHarness()
    a, b = world.pair(commit_s=0.001)
    before = b.links.traffic.frames_out
    a.links.send("b", Lane.PUBLISH, b"1")
    world.loop.run_for(0.1)
    assert a.all("acked") == [("b", Lane.PUBLISH, 1)]
    assert b.links.traffic.frames_out == before + 1
    assert a.links._out["b"]._flight._units == 0


def test_a_frame_that_is_not_acknowledged_soon_is_reported() -> None:
    """The sender learns after `report_s`, and once, that its frame was handled."""
    settings = LinkSettings()
    world = LinkHarness(settings=settings)
    a, b = world.pair(commit_s=10)
    flight = a.links._out["b"]._flight
    before = b.links.traffic.frames_out
    a.links.send("b", Lane.PUBLISH, b"1")
    world.loop.run_for(settings.report_s / 2)
    assert flight._units > 0 and b.links.traffic.frames_out == before
    world.loop.run_for(settings.report_s)
    assert flight._units == 0 and b.links.traffic.frames_out == before + 1
    a.links.send("b", Lane.PUBLISH, b"2")
    world.loop.run_for(0.1)
    assert flight._units == 0 and b.links.traffic.frames_out == before + 2


def test_a_quarter_of_the_work_in_flight_is_reported_at_once() -> None:
    """The sender must not wait while the peer has nothing to do."""
    settings = LinkSettings(flight_units=16 * ITEM_UNITS)
    world = LinkHarness(settings=settings)
    a, b = world.pair(commit_s=10)
    flight = a.links._out["b"]._flight
    for number in range(4):
        a.links.send("b", Lane.PUBLISH, b"%d" % number)
    world.loop.run_for(settings.report_s / 2)
    assert flight._units > 0
    a.links.send("b", Lane.PUBLISH, b"4")
    world.loop.run_for(settings.report_s / 4)
    assert flight._units == 0
    assert b.items(Lane.PUBLISH) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_stream_with_the_smallest_limit_says_each_thing_once() -> None:
    world = LinkHarness(settings=LinkSettings(flight_units=1))
    a, b = world.pair()
    before = b.links.traffic.frames_out
    for number in range(3):
        a.links.send("b", Lane.PUBLISH, b"%d" % number)
        world.loop.run_for(0.01)
    assert a.all("acked")[-1] == ("b", Lane.PUBLISH, 3)
    assert b.links.traffic.frames_out == before + 3

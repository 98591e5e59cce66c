"""A full lane of publishes, and the call to its owner when it has room again."""

from __future__ import annotations

from strogoff.cluster.links.lane import KEPT_BYTES
from strogoff.cluster.links.links import Lane, LinkSettings

from .link_harness import LinkHarness

SETTINGS = LinkSettings(ahead_bytes=5000, publish_window_bytes=20_000)


def test_a_lane_is_full_until_enough_is_sent() -> None:
    world = LinkHarness(settings=SETTINGS)
    a, b = world.pair(commit_s=1.0)
    for _ in range(4):
        a.links.send("b", Lane.PUBLISH, bytes(1000))
    assert a.links.full == {}
    a.links.send("b", Lane.PUBLISH, bytes(1000))
    assert a.links.full == {"b": None} and a.all("room") == []
    world.loop.settle()
    assert a.links.full == {} and a.all("room") == [("b",)]
    for _ in range(25):
        a.links.send("b", Lane.PUBLISH, bytes(1000))
    world.loop.settle()
    assert a.links.full == {"b": None}  # the window is full
    world.loop.run_for(1.5)
    assert a.links.full == {} and a.all("room") == [("b",), ("b",)]
    for lane in (Lane.METADATA, Lane.APPEND):
        for _ in range(10):
            a.links.send("b", lane, bytes(1000))
    assert a.links.full == {} and b.links.full == {}


def test_items_that_the_owner_adds_on_room_are_in_the_frame() -> None:
    """The owner may send as long as the lane has room."""
    world = LinkHarness(settings=SETTINGS)
    a, b = world.pair(commit_s=1.0)
    waiting = [b"%d" % number + bytes(1000) for number in range(30)]

    def room(node: str) -> None:
        while waiting and node not in a.links.full:
            a.links.send(node, Lane.PUBLISH, waiting.pop(0))

    a.room = room  # type: ignore[method-assign]
    for _ in range(5):
        a.links.send("b", Lane.PUBLISH, bytes(1000))
    before = a.links.traffic.frames_out
    a.links._out["b"]._flush()
    assert a.links.traffic.frames_out == before + 1 and len(waiting) == 30  # it was not full before
    world.loop.settle()
    assert len(b.items(Lane.PUBLISH)) == 19 and len(waiting) == 11 and a.links.full == {"b": None}
    world.loop.run_for(5)
    assert waiting == [] and len(b.items(Lane.PUBLISH)) == 35 and a.links.full == {}


def test_a_lane_without_a_stream_is_never_full() -> None:
    """A lane without a stream sends no frames; it has another bound."""
    world = LinkHarness(settings=SETTINGS)
    a, b = world.pair()
    world.network.cut("a", "b")
    for _ in range(30):
        a.links.send("b", Lane.PUBLISH, bytes(1000))
    world.loop.settle()
    assert a.links.full == {"b": None}  # the window is full
    down: list[bool] = []
    a.room = lambda node: down.append(a.links.up(node) or node in a.links.full)  # type: ignore[method-assign]
    world.network.drop("a", "b")
    world.loop.settle()
    assert a.links.full == {} and down == [False]
    a.links.send("b", Lane.PUBLISH, bytes(10_000))
    assert a.links.full == {}
    world.network.heal()
    world.loop.run_for(2)
    assert len(b.items(Lane.PUBLISH)) == 31


def test_items_that_wait_outside_the_lane_count_as_well() -> None:
    world = LinkHarness(settings=LinkSettings(buffer_bytes=20_000))
    a, _ = world.pair()
    a.links.beside("b", Lane.PUBLISH, 4, 8000)
    assert a.links.memory_bytes("b") == 16_000 + 4 * KEPT_BYTES and a.links.slow[Lane.PUBLISH] == {}
    a.links.beside("b", Lane.PUBLISH, 5, 9000)
    assert a.links.slow[Lane.PUBLISH] == {"b": None}
    a.links.beside("b", Lane.PUBLISH, 1, 1000)
    a.links.send("b", Lane.PUBLISH, b"1")
    world.loop.settle()
    assert a.links.slow[Lane.PUBLISH] == {} and a.all("relieved") == [("b",)]


def test_a_lane_has_room_after_items_were_acknowledged_before_they_were_sent_again() -> None:
    """The peer had the items from the broken stream, and its disk took them before all were sent again. If they counted
    as in flight, the lane would be full for ever, and its owner would keep every further message.
    """
    world = LinkHarness(settings=LinkSettings(ahead_bytes=5000, flight_units=100, gather_bytes=2000))
    a, b = world.pair(commit_s=1.0)
    for _ in range(100):
        a.links.send("b", Lane.PUBLISH, bytes(200))
    world.loop.run_for(0.7)
    for path in (("a", "b"), ("b", "a")):
        world.network.delay(*path, 0.1)
    assert len(b.items(Lane.PUBLISH)) == 100 and a.links.waiting_items("b", Lane.PUBLISH) == 100
    world.network.drop("a", "b")
    world.loop.run_for(5)
    assert a.links.waiting_items("b", Lane.PUBLISH) == 0 and 0 < a.links.traffic.resent < 100
    a.links.send("b", Lane.PUBLISH, bytes(200))
    world.loop.run_for(5)
    assert a.links.waiting_items("b", Lane.PUBLISH) == 0 and a.links.full == {}

"""A stream in memory, at both ends."""

from __future__ import annotations

import pytest

from .transport_pair import TransportPair


def test_no_event_happens_within_a_call() -> None:
    """Every event comes from the loop."""
    two = TransportPair()
    mine = two.dial()
    assert two.accepted == []
    two.loop.settle()
    mine.say(b"x")
    theirs = two.accepted[0]
    assert theirs.frames == []
    two.network.drop("a", "b")
    assert mine.reason is None and theirs.reason is None
    two.loop.settle()
    assert mine.reason is not None and theirs.reason is not None and theirs.frames == []


def test_a_close_arrives_after_the_frames() -> None:
    """Frames sent before the close arrive before it."""
    two = TransportPair()
    mine, theirs = two.joined()
    mine.say(b"last words")
    two.loop.turn()
    assert mine.wire is not None
    mine.wire.close("done")
    two.loop.settle()
    assert theirs.frames == [b"last words"] and theirs.reason == "done" and mine.reason is None


def test_an_error_of_the_receiver_closes_and_is_raised() -> None:
    two = TransportPair()
    mine, theirs = two.joined()

    def explode(_frame: bytes) -> None:
        raise ZeroDivisionError

    theirs.received = explode  # type: ignore[method-assign, assignment]
    mine.say(b"x")
    with pytest.raises(ZeroDivisionError):
        two.loop.settle()
    two.loop.settle()
    assert "ZeroDivisionError" in (mine.reason or "") and "ZeroDivisionError" in (theirs.reason or "")


def test_no_timer_is_left() -> None:
    """An open stream schedules nothing: a virtual loop can finish."""
    two = TransportPair()
    two.joined()
    assert not two.loop.turn()

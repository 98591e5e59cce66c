"""Encoding of frames: a round trip changes nothing, and other bytes raise one kind of error."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.links.frames import Frame, MalformedFrame, Run, decode_frame, encode_frame, heartbeat
from strogoff.cluster.links.pieces import Piece, cut

LIMIT = 1 << 20
numbers = st.integers(1, 1 << 60)
runs = st.builds(Run, st.integers(0, 9), numbers, st.integers(0, 1 << 60), st.lists(st.binary(max_size=20), max_size=5))
lane_numbers = st.lists(st.tuples(st.integers(0, 9), numbers), max_size=3)
pieces = st.builds(cut, st.integers(0, 9), numbers, st.binary(min_size=1, max_size=20), st.just(0), st.integers(1, 30))
frames = st.builds(
    Frame,
    st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=20)), max_size=3),
    st.lists(runs, max_size=3),
    lane_numbers,
    lane_numbers,
    st.lists(pieces, max_size=2),
    lane_numbers,
    lane_numbers,
    st.lists(st.tuples(st.integers(0, 9), st.lists(numbers, max_size=3)), max_size=2),
    st.booleans(),
)


@given(frames)
def test_a_round_trip_changes_nothing(frame: Frame) -> None:
    assert decode_frame(encode_frame(frame), LIMIT) == frame


@given(st.binary(max_size=60))
def test_any_bytes_are_a_frame_or_one_error(data: bytes) -> None:
    try:
        decode_frame(data, LIMIT)
    except MalformedFrame as error:
        assert str(error)


def test_a_heartbeat_says_that_its_sender_lives_and_whom_it_hears() -> None:
    assert decode_frame(heartbeat(7), LIMIT) == Frame(stamp=7)
    assert decode_frame(heartbeat(1 << 60, heard=True), LIMIT) == Frame(heard=True, stamp=1 << 60)
    assert len(heartbeat(1 << 60)) < 24


def test_fields_of_a_later_version_are_ignored() -> None:
    later = [[], [], [[2, 7]], [], [], [], [], [], False, 0, [], 3, 5, "new", 1]
    assert decode_frame(msgspec.msgpack.encode(later), LIMIT) == Frame(acks=[(2, 7)], applied=3, stamp=5)


@pytest.mark.parametrize(
    ("frame", "limit", "text"),
    [
        (b"\x93", LIMIT, "frame of 1 bytes: "),
        (encode_frame(Frame(datagrams=[(1, bytes(100))])), 50, "a frame of 118 bytes, 50 are allowed"),
        (encode_frame(Frame(runs=[Run(2, 0, 0, [])])), LIMIT, "lane 2: a run of 0 voids from 0"),
        (encode_frame(Frame(runs=[Run(2, 1, -1, [])])), LIMIT, "lane 2: a run of -1 voids from 1"),
        (encode_frame(Frame(pieces=[Piece(2, 0, 5, 0, b"1")])), LIMIT, "lane 2: a piece of item 0"),
        (encode_frame(Frame(pieces=[Piece(2, 1, 5, 3, b"123")])), LIMIT, "lane 2: bytes 3 to 6 of item 1, which has 5"),
        (encode_frame(Frame(pieces=[Piece(2, 1, -5, 0, b"")])), LIMIT, "frame of"),
        (encode_frame(Frame(windows=[(2, 0)])), LIMIT, "lane 2: a window of 0 bytes"),
    ],
)
def test_malformed(frame: bytes, limit: int, text: str) -> None:
    """The error names the problem and its position."""
    with pytest.raises(MalformedFrame) as caught:
        decode_frame(frame, limit)
    assert text in str(caught.value)


def test_the_last_number_of_a_run() -> None:
    assert Run(0, 5, 2, [b"a", b"b"]).last == 8

"""The filter of packets: however the bytes are split, the same packets pass, unchanged."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from strogoff.mqtt import packets
from strogoff.mqtt.encoder import encode
from strogoff.testing.faults.frame_filter import PACKETS, FrameFilter

STREAM: list[packets.Packet] = [
    packets.Connect("c", 5),
    packets.Publish("t", b"x" * 300, 1, packet_id=1),
    packets.Pingreq(),
    packets.Publish("t", b"", 0),
    packets.Disconnect(),
]
BYTES = b"".join(encode(packet, 5) for packet in STREAM)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cuts), len(data)]
    return [data[start:stop] for start, stop in pairwise(edges)]


@given(st.lists(st.integers(0, len(BYTES)), max_size=20))
def test_the_filter_asks_once_for_each_packet(cuts: list[int]) -> None:
    """The filter asks in order, and all bytes pass."""
    asked: list[str] = []
    filter = FrameFilter(lambda packet: asked.append(packet) or True)  # type: ignore[func-returns-value]
    assert b"".join(filter.feed(piece) for piece in pieces(BYTES, cuts)) == BYTES
    assert asked == [type(packet).__name__.upper() for packet in STREAM]


@given(st.lists(st.integers(0, len(BYTES)), max_size=20))
def test_a_packet_is_left_out_whole(cuts: list[int]) -> None:
    """The other packets are not changed."""
    filter = FrameFilter(lambda packet: packet != "PUBLISH")
    kept = b"".join(encode(packet, 5) for packet in STREAM if not isinstance(packet, packets.Publish))
    assert b"".join(filter.feed(piece) for piece in pieces(BYTES, cuts)) == kept


@given(st.lists(st.integers(0, len(BYTES)), max_size=20))
def test_the_filter_can_end_the_stream_at_a_packet(cuts: list[int]) -> None:
    """All packets before it have passed, and none behind it."""

    def keep(packet: str) -> bool:
        if packet == "PINGREQ":
            passed.end()
        return packet != "PINGREQ"

    passed = FrameFilter(keep)
    before = b"".join(encode(packet, 5) for packet in STREAM[:2])
    assert b"".join(passed.feed(piece) for piece in pieces(BYTES, cuts)) == before


@given(st.binary(max_size=60))
def test_bytes_that_are_not_mqtt_pass(data: bytes) -> None:
    """At most an incomplete header is held back: the broker reports the error, not the filter."""
    filter = FrameFilter(lambda packet: True)
    out = filter.feed(data)
    assert data.startswith(out) and len(data) - len(out) < 5


def test_a_length_of_five_bytes_is_no_mqtt() -> None:
    """The filter checks nothing behind it."""
    filter = FrameFilter(lambda packet: False)
    assert filter.feed(b"\x30\xff\xff\xff\xff\x01") == b"\x30\xff\xff\xff\xff\x01"
    assert filter.feed(b"\xc0\x00") == b"\xc0\x00"


def test_all_names() -> None:
    """In the order of their types (section 2.1.2)."""
    assert PACKETS[0] == "CONNECT" and PACKETS[2] == "PUBLISH" and PACKETS[14] == "AUTH" and len(PACKETS) == 15

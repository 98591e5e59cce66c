"""Rows as a stream of pieces, and the messages about a slot that moves."""

from __future__ import annotations

from random import Random

import pytest

from strogoff.broker.clustering.slot_transfer import (
    ROW_BYTES,
    Attempt,
    Declined,
    Drop,
    Offer,
    Piece,
    Ready,
    RowStream,
    Took,
    decode_message,
    encode_message,
    pieces,
)
from strogoff.cluster.links.frames import MalformedFrame

ATTEMPT = Attempt(9, 40, 41, 1 << 60)


def test_every_message_is_read_back() -> None:
    for message in (
        Offer(ATTEMPT),
        Ready(ATTEMPT),
        Declined(ATTEMPT, "it is busy"),
        Piece(ATTEMPT, 3, b"\x00\xff", True),
        Took(ATTEMPT, 3),
        Drop(ATTEMPT),
    ):
        assert decode_message(encode_message(message)) == message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x90",
        encode_message([9, 1]),
        encode_message(Offer(ATTEMPT))[:-1],
        encode_message(Offer(Attempt(256, 1, 1, 1))),
    ],
)
def test_another_message_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedFrame, match="a message about a slot"):
        decode_message(data)


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_rows_come_out_as_they_went_in(size: int) -> None:
    rng = Random(size)
    rows = [(rng.randbytes(rng.randrange(1, 20)), rng.randbytes(rng.choice((0, 1, 300)))) for _ in range(60)]
    found: list[tuple[bytes, bytes]] = []
    stream = RowStream()
    cut = list(pieces(rows, size))
    for data, last in cut:
        assert len(data) == size or last
        found += stream.take(data)
    assert found == rows and stream.complete
    assert [last for _, last in cut] == [False] * (len(cut) - 1) + [True]


def test_no_rows_are_one_empty_piece() -> None:
    assert list(pieces([])) == [(b"", True)]


def test_a_stream_that_ends_within_a_row_is_not_complete() -> None:
    ((data, _),) = pieces([(b"key", b"value")])
    stream = RowStream()
    assert list(stream.take(data[:-1])) == [] and not stream.complete


def test_a_row_of_an_impossible_size_is_malformed() -> None:
    with pytest.raises(MalformedFrame, match="are allowed"):
        list(RowStream().take((ROW_BYTES).to_bytes(4, "big") + (1).to_bytes(4, "big")))

"""Items in pieces: cutting, joining, and pieces that do not fit together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.links.pieces import Joining, Piece, Scattered, cut


def pieces_of(seq: int, payload: bytes, most: int) -> list[Piece]:
    return [cut(2, seq, payload, offset, most) for offset in range(0, len(payload), most)]


@given(st.binary(min_size=1, max_size=100), st.integers(1, 40))
def test_cut_and_joined(payload: bytes, most: int) -> None:
    """Only the last piece completes the item, and nothing is kept afterwards."""
    joining = Joining(100)
    *first, last = pieces_of(7, payload, most)
    assert last.last and not any(piece.last for piece in first)
    for piece in first:
        assert joining.add(piece) is None and joining.bytes_held <= len(payload)
    assert joining.add(last) == payload and joining.bytes_held == 0


def test_an_item_that_begins_again() -> None:
    """The earlier pieces are dropped, whether they belong to this item or to another."""
    joining = Joining(100)
    joining.add(Piece(2, 1, 6, 0, b"abc"))
    joining.add(Piece(2, 1, 6, 0, b"ABC"))
    assert joining.add(Piece(2, 1, 6, 3, b"DEF")) == b"ABCDEF"
    joining.add(Piece(2, 2, 6, 0, b"abc"))
    assert joining.add(Piece(2, 3, 1, 0, b"x")) == b"x"


def test_an_item_that_is_too_large_takes_no_memory() -> None:
    """Its bytes are only counted."""
    joining = Joining(5)
    for piece in pieces_of(1, b"abcdef", 2):
        assert joining.add(piece) is None and joining.bytes_held == 0
    assert joining.add(Piece(2, 2, 5, 0, b"abcde")) == b"abcde"


@pytest.mark.parametrize(
    "piece",
    [
        Piece(2, 1, 6, 4, b"ef"),
        Piece(2, 2, 6, 3, b"def"),
        Piece(2, 1, 7, 3, b"def"),
        Piece(2, 1, 6, 3, b"defg"),
        Piece(2, 1, 6, 3, b""),
    ],
)
def test_pieces_that_do_not_fit_raise_an_error(piece: Piece) -> None:
    """A gap, another item, another size, too many bytes, none at all."""
    joining = Joining(100)
    joining.add(Piece(2, 1, 6, 0, b"abc"))
    with pytest.raises(Scattered):
        joining.add(piece)


def test_dropped_pieces_are_forgotten() -> None:
    joining = Joining(100)
    joining.add(Piece(2, 1, 6, 0, b"abc"))
    joining.drop()
    assert joining.bytes_held == 0
    with pytest.raises(Scattered):
        joining.add(Piece(2, 1, 6, 3, b"def"))

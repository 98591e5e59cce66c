"""Copies of a slot at rest."""

from __future__ import annotations

from strogoff.sim.checkers.copies import judge

ROWS = {b"s\x07c": b"1", b"q\x07c": b"2"}


def test_equal_copies() -> None:
    assert list(judge(7, 2, {"n1": ROWS, "n3": dict(ROWS)})) == []
    assert list(judge(7, 1, {"n1": ROWS})) == []


def test_a_missing_copy() -> None:
    assert list(judge(7, 2, {"n1": ROWS})) == ["slot 7 has 1 copies, 2 are wanted"]


def test_a_row_that_one_copy_lacks_or_that_differs() -> None:
    (lacks,) = judge(7, 2, {"n3": ROWS, "n1": {b"s\x07c": b"1"}})
    assert lacks == r"copies of slot 7 differ in b'q\x07c': None at n1, b'2' at n3"
    (differs,) = judge(7, 2, {"n3": ROWS, "n1": {**ROWS, b"s\x07c": b"0"}})
    assert differs == r"copies of slot 7 differ in b's\x07c': b'0' at n1, b'1' at n3"

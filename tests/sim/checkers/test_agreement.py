"""Nodes that disagree."""

from __future__ import annotations

from strogoff.sim.checkers.agreement import judge


def test_agreement() -> None:
    assert list(judge({})) == []
    assert list(judge({"a": {b"k": b"1"}, "b": {b"k": b"1"}})) == []
    assert list(judge({"a": {b"k": b"1"}, "b": {b"k": b"2"}})) == ["disagree: b'k' is b'1' at a, b'2' at b"]
    assert list(judge({"a": {}, "b": {b"k": b"2"}})) == ["disagree: b'k' is None at a, b'2' at b"]

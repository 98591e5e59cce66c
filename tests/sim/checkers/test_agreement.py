"""Nodes that disagree."""

from __future__ import annotations

from strogoff.sim.checkers.agreement import judge, judge_seen


def test_agreement() -> None:
    assert list(judge({})) == []
    assert list(judge({"a": {b"k": b"1"}, "b": {b"k": b"1"}})) == []
    assert list(judge({"a": {b"k": b"1"}, "b": {b"k": b"2"}})) == ["disagree: b'k' is b'1' at a, b'2' at b"]
    assert list(judge({"a": {}, "b": {b"k": b"2"}})) == ["disagree: b'k' is None at a, b'2' at b"]


def test_nodes_that_have_seen_the_same_writes_have_the_same() -> None:
    assert list(judge_seen([("a", "w1", "v1"), ("b", "w2", "v2"), ("c", "w1", "v1")])) == []
    assert list(judge_seen([("a", "w1", "v1"), ("b", "w2", "v2"), ("c", "w1", "v2")])) == [
        "disagree: a and c have seen the same writes, and have different metadata"
    ]
    assert list(judge_seen([("a", "", "v1"), ("b", "", "v2")])) == [], "their exchanges are half done"

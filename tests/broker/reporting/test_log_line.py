"""Lines of the log: sentence and fields, on one line whatever the values are."""

from __future__ import annotations

import json

import pytest

from strogoff.broker.reporting.log_line import VALUE_LIMIT, Line, escape, shorten, shown


def test_a_line_is_its_sentence_and_its_fields() -> None:
    line = Line("conn.refuse", "CONNECT refused", client_id="c1", user=None, peer="10.0.0.7:1234", reason="", code=5)
    assert str(line) == "CONNECT refused client_id=c1 peer=10.0.0.7:1234 code=5"
    assert (line.event, line.text) == ("conn.refuse", "CONNECT refused")
    assert line.fields == {"client_id": "c1", "peer": "10.0.0.7:1234", "code": 5}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("word", "word"),
        ("zwei Wörter", '"zwei Wörter"'),
        ('a"b', '"a\\"b"'),
        ("a=b", '"a=b"'),
        ("back\\slash", '"back\\\\slash"'),
        (True, "true"),
        (12, "12"),
        (["n1", "n2"], "n1,n2"),
        ({"publish_accepted": 3, "publish_refused": 1}, "publish_accepted:3,publish_refused:1"),
    ],
)
def test_values(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize("char", ["\n", "\r", "\x00", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\t"])
def test_control_characters_in_values_are_escaped(char: str) -> None:
    hostile = f"c1{char}2026-01-01T00:00:00.000+00:00 n1 [ERROR] forged"
    line = Line("conn.refuse", "CONNECT refused", client_id=hostile, nodes=[hostile], counts={hostile: 1})
    assert line.isprintable() and len(line.splitlines()) == 1
    assert escape(hostile).isprintable()
    quoted = line.partition("client_id=")[2].partition(" nodes=")[0]
    assert json.loads(quoted) == hostile  # a parser of the line gets the exact id


def test_long_values_are_cut() -> None:
    assert shorten("x" * VALUE_LIMIT) == "x" * VALUE_LIMIT
    assert shorten("x" * 65535) == "x" * VALUE_LIMIT + "... (65535 characters)"
    assert len(Line("q.drop", "dropped", topic="t" * 65535)) < 2 * VALUE_LIMIT
    assert shorten(["y" * 300])[0].endswith("(300 characters)")

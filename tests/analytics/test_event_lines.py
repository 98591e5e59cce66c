"""Lines of the event log: a reader gets rows from arrays and from objects, and a reason for every other line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strogoff.analytics import schema
from strogoff.analytics.event_lines import (
    HEADER_BEGIN,
    MARK,
    REASONS,
    Header,
    Reject,
    header_line,
    line_of,
    numbers_of,
    read_header,
    row_line,
    rows_in,
)

HEADER = header_line("r", "n1", 3)
CONSTANTS = {"v": schema.VERSION, "run_id": "r", "node": "n1", "boot": 3}
STOP = '["node.stop",7,65536,9'

HEADERS = {
    "whole": HEADER.decode().rstrip(),
    "torn": HEADER.decode()[:50],
    "newer": HEADER_BEGIN + "99}",
    "short": HEADER_BEGIN + "5}",
    "none": "",
    "later": '{"strogoff_eventlog":6,"run_id":"r","node":"n1","boot":3,"types":{"node.stop":["reason"],"x.y":[]}}',
}
"""Header lines of the cases."""

CASES = [
    ("whole", STOP + "]", None),
    ("whole", STOP + ',"ordered"]', None),
    ("whole", " " + STOP + "] ", None),
    ("whole", STOP + ",null]", None),
    ("later", STOP + ',"ordered"]', None),
    ("later", '["x.y",7,65536,9]', "unknown_type"),
    ("later", '["sess.end",7,65536,9]', "unknown_type"),
    ("whole", '["node.halt",7,65536,9]', "unknown_type"),
    ("whole", STOP, "torn"),
    ("whole", '["', "torn"),
    ("whole", "\0\0\0", "torn"),
    ("whole", "[hello]", "not_json"),
    ("whole", "hello", "not_json"),
    ("whole", STOP + ',"ordered",1]', "wrong_type"),
    ("whole", '["node.stop",7,65536,"x"]', "wrong_type"),
    ("whole", '["node.stop",7,65536,9223372036854775808]', "wrong_type"),
    ("whole", '["slot.arrive",7,65536,9,"x"]', "wrong_type"),
    ("whole", '["pub.route",7,65536,9,["n1",1,2],"x"]', "wrong_type"),
    ("whole", '["node.stop",7,65536]', "missing_header"),
    ("whole", '["node.stop",null,65536,9]', "missing_header"),
    ("whole", "[]", "missing_header"),
    ("none", STOP + "]", "no_header"),
    ("torn", STOP + "]", "no_header"),
    ("newer", STOP + "]", "no_header"),
    ("short", STOP + "]", "no_header"),
    ("none", json.dumps({**CONSTANTS, "v": 4, "seq": 1, "hlc": 2, "mono_ns": 3, "type": "node.stop"}), None),
    ("whole", json.dumps({**CONSTANTS, "v": 4, "seq": 1, "hlc": 2, "mono_ns": 3, "type": "node.stop"}), None),
]
"""Header line, line behind it, reason of its reject."""

SAMPLES: dict[str, Any] = {
    schema.STRING: "ü\n",
    schema.INT: (1 << 63) - 1,
    schema.BOOL: False,
    schema.MID: ["n1", 2, 3],
    schema.STRINGS: ["a", '"'],
    schema.COUNTS: {"queue_full": 2},
}


def only(lines: Sequence[bytes]) -> Any:
    (found,) = rows_in(lines)
    return found


@pytest.mark.parametrize(("header", "line", "reason"), CASES)
def test_every_line_is_a_row_or_has_its_reason(header: str, line: str, reason: str | None) -> None:
    found = [*rows_in([HEADERS[header].encode(), line.encode()])]
    bad = {"torn": ["torn"], "newer": ["newer_version"], "short": ["wrong_type"]}.get(header, [])
    assert [each.reason if isinstance(each, Reject) else None for each in found] == [*bad, reason]
    assert reason is None or reason in REASONS


@pytest.mark.parametrize("kind", schema.TYPES)
@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_a_row_comes_back_from_its_line(kind: str, data: st.DataObject) -> None:
    """Whatever fields it has, in any order; null is absent."""
    definition = schema.TYPES[kind]
    optional = data.draw(st.lists(st.sampled_from(definition.optional), unique=True)) if definition.optional else []
    fields = {name: SAMPLES[schema.FIELDS[name].kind] for name in (*definition.required, *optional)}
    for name in data.draw(st.sets(st.sampled_from(optional))) if optional else ():
        fields[name] = None
    given = {name: fields[name] for name in data.draw(st.permutations(list(fields)))}
    line = row_line(kind, 7, 65536, 9, given)
    row = CONSTANTS | {"type": kind, "seq": 7, "hlc": 65536, "mono_ns": 9}
    assert line_of(row | given) == line
    row |= {name: value for name, value in given.items() if value is not None}
    assert only([HEADER, line]) == row
    assert schema.validate(row) == []
    assert line.endswith(b"]\n") and line.count(b"\n") == 1


def test_nulls_at_the_end_are_left_out() -> None:
    line = row_line("pub.recv", 1, 65536, 9, {"qos": 1, "client": "c"})
    assert line == b'["pub.recv",1,65536,9,null,"c",null,1]\n'


def test_a_header_line_explains_the_rows() -> None:
    """Its lists alone say what a value means, so rows of a version with other fields are read right."""
    header = read_header(HEADER)
    assert isinstance(header, Header) and header[:4] == (schema.VERSION, "r", "n1", 3)
    assert HEADER.startswith(HEADER_BEGIN.encode()) and json.loads(HEADER)[MARK] == schema.VERSION
    assert {name: {*each.required, *each.optional} for name, each in schema.TYPES.items()} == {
        name: {*fields} for name, fields in header.types.items()
    }
    other = json.loads(HEADER) | {"types": {"sess.end": ["surplus", "reason", "client"]}}
    row = only([json.dumps(other, separators=(",", ":")).encode(), b'["sess.end",1,2,3,5,"expired","c"]'])
    assert (row["client"], row["reason"]) == ("c", "expired")


def test_a_header_line_holds_for_the_lines_behind_it() -> None:
    """A second one, and one that cannot be read, end the first."""
    row = row_line("node.stop", 1, 65536, 9, {})
    found = [*rows_in([HEADER, row, header_line("other", "n1", 3), row, HEADER[:60], row])]
    assert [each if isinstance(each, Reject) else each["run_id"] for each in found] == [
        "r",
        "other",
        Reject("torn"),
        Reject("no_header"),
    ]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("node.halt", {}),
        ("node.stop", {"client": "c"}),
        ("node.stop", {"reason": "\ud800"}),
    ],
)
def test_a_row_that_has_no_place_is_refused(kind: str, fields: dict[str, Any]) -> None:
    with pytest.raises((KeyError, ValueError, OverflowError)):
        row_line(kind, 1, 2, 3, fields)


def test_the_numbers_of_a_line() -> None:
    header = read_header(HEADER)
    assert isinstance(header, Header)
    assert numbers_of(row_line("node.stop", 7, 2, 3, {}), header) == (7, 7)
    assert numbers_of(row_line("log.gap", 7, 2, 3, {"first": 5, "last": 7}), header) == (5, 7)
    assert numbers_of(b"[", header) == numbers_of(HEADER, header) == (0, 0)


@given(st.lists(st.binary(max_size=40) | st.sampled_from([HEADER, b'["node.stop",1,2,3]', b"[{}]", b"[[1],2,3,4]"])))
def test_reading_never_raises(lines: list[bytes]) -> None:
    for each in rows_in(lines):
        assert isinstance(each, Reject) or each["type"] in schema.TYPES

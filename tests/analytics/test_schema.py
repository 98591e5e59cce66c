"""The event log's schema: the table itself, and the results of `validate`."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.analytics import schema
from strogoff.analytics.schema import validate

ROOT = Path(__file__).parents[2]
SAMPLES: dict[str, Any] = {
    schema.STRING: "x",
    schema.INT: 1,
    schema.BOOL: False,
    schema.MID: ["n1", 2, 3],
    schema.STRINGS: ["a"],
    schema.COUNTS: {"queue_full": 2},
}


def row(type_: str, **fields: Any) -> dict[str, Any]:
    """Returns a valid row of a type with the required fields, changed by `fields`."""
    header = {"v": 1, "run_id": "r", "node": "n1", "boot": 1, "seq": 1, "hlc": 5, "mono_ns": 9, "type": type_}
    required = {name: SAMPLES[schema.FIELDS[name].kind] for name in schema.TYPES[type_].required}
    return {**header, **required, **fields}


@pytest.mark.parametrize("name", schema.TYPES)
def test_a_row_of_every_type_is_right_with_and_without_the_optional_fields(name: str) -> None:
    optional = {each: SAMPLES[schema.FIELDS[each].kind] for each in schema.TYPES[name].optional}
    assert validate(row(name)) == []
    assert validate(row(name, **optional)) == []
    assert validate(row(name, **dict.fromkeys(optional))) == []


def test_the_table_is_closed() -> None:
    used = {name for each in schema.TYPES.values() for name in each.required + each.optional}
    assert used == set(schema.FIELDS)
    assert not used & {each.name for each in schema.HEADER}
    assert set(schema.COLUMNS) == used | {each.name for each in schema.HEADER}
    assert all(each.kind in SAMPLES for each in schema.COLUMNS.values())
    assert all(each.meaning for each in schema.TYPES.values())
    assert not any(set(each.required) & set(each.optional) for each in schema.TYPES.values())


def test_every_type_is_written_somewhere() -> None:
    """A type that no part of the broker, or of the test fixtures, names outside of its readers would never come."""
    words: set[str] = set()
    for folder in ("broker", "cluster", "netsplit", "storage", "testing"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.name != "log_events.py" and "log_audit" not in path.parts:
                constants = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
                words.update(node.value for node in constants if isinstance(node.value, str))
    assert set(schema.TYPES) - words == set()


def test_the_types_of_level_session() -> None:
    """Drops are always recorded (P8), so they are session events; events of each message are not."""
    for name in ("q.drop", "q.expire", "node.stats", "log.gap", "policy.deny"):
        assert schema.TYPES[name].level == schema.SESSION
    assert {"pub.recv", "pub.ack", "q.enq", "dlv.send", "dlv.ack", "fwd.send"} <= schema.MESSAGE_TYPES


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"v": 99}, "v: 99 is not a version that this schema knows (1 to 10)"),
        ({"seq": 0}, "seq: must be at least 1, is 0"),
        ({"boot": True}, "boot: must be a whole number of 64 bits, is True"),
        ({"hlc": 1 << 63}, f"hlc: must be a whole number of 64 bits, is {1 << 63}"),
        ({"type": "pub.rcv"}, "type: 'pub.rcv' is unknown"),
        ({"type": ["x"]}, "type: ['x'] is unknown"),
        ({"topic": 3}, "topic: must be a string, is 3"),
        ({"topic": None}, "topic: must be a string, is None"),
        ({"mid": ["n1", 2]}, "mid: must be [node, boot, counter], is ['n1', 2]"),
        ({"mid": ["n1", 2, "3"]}, "mid: must be [node, boot, counter], is ['n1', 2, '3']"),
        ({"filter": "a/#"}, "filter: not a field of pub.recv"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], problem: str) -> None:
    assert problem in validate(row("pub.recv") | change)


def test_missing_fields_are_named() -> None:
    assert validate({}) == [f"{each.name}: missing" for each in schema.HEADER]
    short = row("q.drop")
    del short["reason"], short["seq"]
    assert validate(short) == ["seq: missing", "reason: missing in q.drop"]


@given(
    st.dictionaries(st.sampled_from(list(schema.COLUMNS)) | st.text(max_size=5), st.none() | st.integers() | st.text())
)
def test_validate_never_raises(anything: dict[str, Any]) -> None:
    assert isinstance(validate(anything), list)

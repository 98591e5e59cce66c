"""The quick decoder has the rows and rejects of the thorough one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from strogoff.analytics import schema
from strogoff.analytics.event_lines import Header, Reject, decode, header_line, line_of, read_header
from strogoff.analytics.quick_lines import QuickLines, QuickRow

from .test_event_lines import CASES, HEADERS, SAMPLES

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3), st.just(["n1", 2, 3])
)


def header_of(line: bytes) -> Header | None:
    found = read_header(line)
    return found if isinstance(found, Header) else None


def plain(found: Any) -> Any:
    """A quick row as the thorough decoder has it."""
    if not isinstance(found, QuickRow):
        return found
    row = {**found.constants, **asdict(found)}
    return {name: list(value) if name == "mid" else value for name, value in row.items() if value is not None}


@pytest.mark.parametrize(("header", "line", "reason"), CASES)
def test_each_line_is_the_same(header: str, line: str, reason: str | None) -> None:
    under = header_of(HEADERS[header].encode())
    assert plain(QuickLines().decode(line.encode(), under)) == decode(line.encode(), under)


def test_rows_of_all_types_are_quick() -> None:
    """And one decoder follows the headers of a file."""
    lines = QuickLines()
    for boot in (1, 2):
        under = header_of(header_line("r", "n1", boot))
        for kind in schema.TYPES.values():
            fields = {name: SAMPLES[schema.FIELDS[name].kind] for name in (*kind.required, *kind.optional)}
            line = line_of({"type": kind.name, "seq": 1, "hlc": 2, "mono_ns": 3, **fields})
            found = lines.decode(line, under)
            assert isinstance(found, QuickRow)
            assert plain(found) == decode(line, under)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(schema.TYPES)), st.lists(VALUES, max_size=6), st.integers(0, 3))
def test_values_of_any_type(kind: str, values: list[Any], cut: int) -> None:
    import msgspec

    under = header_of(header_line("r", "n1", 1))
    try:
        line = msgspec.json.encode([kind, 1, 2, 3, *values])
    except OverflowError:
        return
    line = line[: len(line) - cut]
    assert plain(QuickLines().decode(line, under)) == decode(line, under)


@pytest.mark.parametrize(
    "changed",
    [
        {"version": schema.VERSION + 1},
        {"boot": 1 << 63},
        {"types": {"node.stop": ["reason", "reason"]}},
        {"types": {"node.stop": ["reason", "other"]}},
        {"types": {"node.stop": ["seq"]}},
    ],
)
def test_an_unusual_header_is_left_to_the_thorough_decoder(changed: dict[str, Any]) -> None:
    usual = header_of(header_line("r", "n1", 1))
    assert usual is not None
    under = usual._replace(**changed)
    line = b'["node.stop",1,2,3,"x"]'
    found = QuickLines().decode(line, under)
    assert not isinstance(found, QuickRow) and found == decode(line, under)
    assert isinstance(decode(line, None), Reject)

"""The encoding of an answer from the node to vmq-admin."""

from __future__ import annotations

import pytest

from strogoff.admin.result import Alert, Part, Table, Text
from strogoff.admin.wire import CHARACTERS, ROWS, TruncatedResult, from_lines, progress_line, to_lines


def test_an_answer_survives_a_round_trip() -> None:
    rows = [(f"c{number}", number, True, None, 1.5) for number in range(2 * ROWS + 1)]
    parts: list[Part] = [
        Text("a\nb"),
        Table(("a", "b", "c", "d", "e"), list(rows), "{a}"),
        Table(("empty",), []),
        Alert("no"),
    ]
    lines = list(to_lines(parts, 3))
    assert len(lines) == 1 + 1 + 3 + 1 + 1 + 1
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    assert from_lines(lines) == (parts, 3)


def test_a_line_ends_behind_many_characters() -> None:
    rows = [("x" * CHARACTERS, 1), ("a", 2), ("y" * CHARACTERS, 3), ("z", 4)]
    parts: list[Part] = [Table(("text", "number"), list(rows))]
    lines = list(to_lines(parts, 0))
    assert len(lines) == 1 + 2 + 1
    assert from_lines(lines) == (parts, 0)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        list(to_lines([Text("a")], 0))[:-1],
        [b"what?\n"],
        [b'{"kind":"rows","rows":[]}\n'],
        [b'{"kind":"strange"}\n'],
    ],
)
def test_an_answer_without_an_end_is_an_error(lines: list[bytes]) -> None:
    with pytest.raises(TruncatedResult):
        from_lines(lines)


def test_progress_is_shown_at_once_or_is_part_of_the_answer() -> None:
    lines = [progress_line("half"), *to_lines([Text("Done")], 0)]
    shown: list[str] = []
    assert from_lines(lines, shown.append) == ([Text("Done")], 0)
    assert shown == ["half"]
    assert from_lines(lines) == ([Text("half"), Text("Done")], 0)
    with pytest.raises(TruncatedResult):
        from_lines(lines[:1], shown.append)
    assert shown == ["half", "half"]

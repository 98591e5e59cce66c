"""Lines, comments, quotes."""

from __future__ import annotations

import pytest

from strogoff.configs.syntax import Line, quoted, read_lines


@pytest.mark.parametrize(
    ("raw", "key", "text"),
    [
        ("a = b", "a", "b"),
        ("  a.b-c.d_1=b c  ", "a.b-c.d_1", "b c"),
        ("a = b # comment", "a", "b"),
        ("a = b = c", "a", "b = c"),
        ("a =", "a", ""),
        ("a = # comment", "a", ""),
        ("a = 'b # c'", "a", "b # c"),
        ("a = 'b # c' # d", "a", "b # c"),
        ("a = 'b' c", "a", "'b' c"),
        ("a = b\r", "a", "b"),
        ("a = [{x, 'y'}]", "a", "[{x, 'y'}]"),
    ],
)
def test_a_setting(raw: str, key: str, text: str) -> None:
    lines, problems, warnings = read_lines(f"\n{raw}", "f.conf")
    assert lines == [Line(key, text, "f.conf", 2, "f.conf:2")]
    assert lines[0].place == "f.conf:2"
    assert problems == []
    assert warnings == []


def test_empty_lines_and_comments_are_nothing() -> None:
    assert read_lines("\n  \n# a = b\n   ## c = d\n\r\n", "f") == ([], [], [])


@pytest.mark.parametrize("raw", ["word", "= b", "a b = c", "a..b = c", ".a = b", "ä = b", "a$ = b"])
def test_anything_else_is_a_problem(raw: str) -> None:
    lines, (problem,), _ = read_lines(raw, "f")
    assert lines == []
    assert (problem.line, problem.message, problem.expected) == (1, "this is no setting", "key = value")
    assert problem.found == raw


@pytest.mark.parametrize("raw", ["distributed_cookie : hunter2", "listener.ssl.a.keypasswd hunter2"])
def test_a_problem_does_not_show_a_secret(raw: str) -> None:
    _, (problem,), _ = read_lines(raw, "f")
    assert "hunter2" not in str(problem)


def test_a_hash_inside_of_a_word_gives_a_warning() -> None:
    lines, _, warnings = read_lines("password = abc#def", "f")
    assert lines[0].text == "abc"
    assert warnings == ["f:1: password: the value ends at the #; put the value in single quotes to keep the #"]


@pytest.mark.parametrize("text", ["'alarms/#, +/state' # all alarms", "+/state # of all", "'#'"])
def test_filters_of_topics_may_have_wildcards_in_quotes(text: str) -> None:
    (line,), problems, warnings = read_lines(f"eventlog.topics = {text}", "f")
    assert line.text in ("alarms/#, +/state", "+/state", "#") and not (problems or warnings)
    assert quoted(line.text) == text.partition(" # ")[0]


def test_only_line_feeds_end_lines() -> None:
    (line,), _, _ = read_lines("a = b\x0bc\u2028d", "f")
    assert line.text == "b\x0bc\u2028d"

"""The text of errors."""

from __future__ import annotations

from strogoff.configs.problems import ConfigError, Problem, shortened


def test_a_problem_has_place_key_expectation_finding_and_suggestion() -> None:
    problem = Problem("a.conf", 3, "queue_type", "wrong value", "one of fifo, lifo", "fito", "fifo")
    assert str(problem) == (
        'a.conf:3: queue_type: wrong value\n    expected one of fifo, lifo\n    found "fito"\n    did you mean fifo?'
    )


def test_a_problem_without_line_or_key() -> None:
    assert str(Problem("a.conf", 0, "", "the file cannot be read")) == "a.conf: the file cannot be read"


def test_all_problems_are_in_one_error() -> None:
    error = ConfigError([Problem("a", 1, "x", "unknown key", "", "", "y"), Problem("a", 2, "z", "unknown key")])
    assert str(error) == (
        "2 problems in the configuration:\n  a:1: x: unknown key\n      did you mean y?\n  a:2: z: unknown key"
    )
    assert str(ConfigError([Problem("a", 2, "z", "unknown key")])) == (
        "1 problem in the configuration:\n  a:2: z: unknown key"
    )


def test_long_and_unprintable_text_is_made_readable() -> None:
    assert shortened("a\x00b\n") == '"a\\x00b\\n"'
    assert shortened("x" * 500) == f'"{"x" * 120}..."'

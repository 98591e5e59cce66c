"""Patterns against Python's own matcher, and patterns that this matcher cannot finish."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strogoff.admin.patterns import MAX_TEXT_LENGTH, Pattern, PatternError

ATOMS = st.sampled_from(["a", "b", ".", r"\d", r"\w", "[ab]", "[^a]", "[0-9b-]", r"\.", "1", "^", "$"])
REPETITIONS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,1}", "{1,}", "*?"])


def written(parts: list[tuple[str, str]]) -> str:
    # Python refuses to repeat an anchor in some versions
    return "".join(atom + (repetition if atom not in "^$" else "") for atom, repetition in parts)


PATTERNS = st.recursive(
    st.lists(st.tuples(ATOMS, REPETITIONS), max_size=4).map(written),
    lambda inner: (
        st.tuples(inner, inner, REPETITIONS).map(lambda three: f"{three[0]}(?:{three[1]}){three[2]}")
        | st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})")
    ),
    max_leaves=4,
)


@settings(max_examples=300, deadline=None)
@given(PATTERNS, st.text("ab1.-\n", max_size=8))
def test_results_agree_with_pythons_matcher(pattern: str, text: str) -> None:
    try:
        wanted = re.search(pattern, text) is not None
    except re.error:
        return
    try:
        compiled = Pattern(pattern)
    except PatternError as error:
        assert "larger than" in str(error)
        return
    assert compiled.search(text) is wanted


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|a)*$", "(a*)*b", "(a|aa)+$", "(.*)*x", "(a?){30}a{30}$"])
def test_no_pattern_takes_long(pattern: str) -> None:
    """Python's matcher needs years for some of these."""
    compiled = Pattern(pattern)
    begun = time.thread_time()
    compiled.search("a" * MAX_TEXT_LENGTH + "!")
    assert time.thread_time() - begun < 1


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("(?i)ABC", "xaBcx", True),
        ("(?i)[A-C]+$", "xabc", True),
        ("abc", "aBc", False),
        (r"\x41\u0042", "AB", True),
        (r"\AC\t", "C\t", True),
        (r"^\d{4}$", "1234", True),
        (r"^\d{4}$", "12345", False),
        ("(?P<name>a)b", "ab", True),
        ("a{,2}b", "aab", True),
        ("a{x", "a{x", True),
        ("[]a]", "]", True),
        (r"[\d_]", "_", True),
        ("^$", "", True),
        ("$[^a]", "\n", True),
        ("$^", "\n", True),
        ("$", "a", True),
        ("é|ü", "für", True),
    ],
)
def test_the_syntax_of_patterns(pattern: str, text: str, found: bool) -> None:
    assert Pattern(pattern).search(text) is found


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(", "without its )"),
        ("a)", "without its ("),
        ("[a", "without its ]"),
        ("*a", "repetition of nothing"),
        ("a**", "repetition of a repetition"),
        ("a++", "possessive"),
        (r"(a)\1", r"\1 is not supported"),
        ("(?=a)", "are supported"),
        (r"\bword", r"\b is not supported"),
        (r"\xg1", "hexadecimal"),
        ("[b-a]", "wrong order"),
        ("a{3,2}", "lower bound above"),
        ("a{1000}", "999"),
        ("(a{99}){99}", "larger than"),
        ("a" * 1000, "larger than"),
        ("(" * 60 + ")" * 60, "inside each other"),
        ("a\\", "at the end"),
    ],
)
def test_a_malformed_pattern_is_refused(pattern: str, says: str) -> None:
    with pytest.raises(PatternError) as refused:
        Pattern(pattern)
    assert says in str(refused.value)


def test_only_the_beginning_of_a_long_text_is_searched() -> None:
    assert Pattern("b").search("a" * (MAX_TEXT_LENGTH - 1) + "b")
    assert not Pattern("b").search("a" * MAX_TEXT_LENGTH + "b")


def test_many_different_texts_do_not_fill_the_memory() -> None:
    pattern = Pattern("x(.*)y$")
    for number in range(300):
        pattern.search("".join(chr(300 + (number * 97 + each) % 50_000) for each in range(100)))
    assert sum(len(each.transitions) for each in pattern._dfa_states.values()) <= 20_001

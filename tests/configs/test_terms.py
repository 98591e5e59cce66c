"""Erlang terms in values."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.configs.terms import parse_terms


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[]", ()),
        ("[vmq_reg_trie]", ("vmq_reg_trie",)),
        ("[{nodelay, true}, {linger, {true, 0}}]", (("nodelay", True), ("linger", (True, 0)))),
        ("[ 'quoted atom', \"string\", -5 ,a@b ]", ("quoted atom", "string", -5, "a@b")),
        ("[[1,2],[],{}]", ((1, 2), (), ())),
    ],
)
def test_lists_become_tuples(text: str, value: object) -> None:
    assert parse_terms(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a list in brackets"),
        ("nodelay", "a list in brackets"),
        ("{a, b}", "a list in brackets"),
        ("[a", "an Erlang list that is closed"),
        ("[a,", "an Erlang list that is closed"),
        ("[", "an Erlang list that is closed"),
        ("[a b]", "a comma or ] instead of b"),
        ("[a, ]", "a value instead of ]"),
        ("[{a, b]]", "a comma or } instead of ]"),
        ("[a] b", "no text after the list, at b"),
        ("[a, ?]", "an Erlang list; character 4 is wrong"),
        ("[" * 40, "a value instead of ["),
    ],
)
def test_malformed_values_are_named(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        parse_terms(text)


@given(st.text(alphabet="[]{},ab1 '\"-?", max_size=40))
def test_any_text_is_a_tuple_or_a_value_error(text: str) -> None:
    try:
        assert isinstance(parse_terms(text), tuple)
    except ValueError as error:
        assert str(error)

"""The file of pre-shared keys."""

from __future__ import annotations

import pytest

from strogoff.broker.listeners.psk import read_keys


def test_keys_by_identity() -> None:
    text = "# comment\n\nclient-1:00ff\n  client-2:AB:cd\n".replace("AB:cd", "ABcd")
    assert read_keys(text, ":") == {"client-1": b"\0\xff", "client-2": b"\xab\xcd"}
    assert read_keys("a;b|01", "|") == {"a;b": b"\1"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a:00\nno separator", "line 2: not IDENTITY:HEXKEY"),
        (":00", "line 1: not IDENTITY:HEXKEY"),
        ("a:xyz", "line 1: the key is not hexadecimal"),
        ("a:", "line 1: the key is not hexadecimal"),
        ("a:00\na:01", "line 2: the identity a occurs twice"),
    ],
)
def test_a_wrong_line_is_named(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_keys(text, ":")

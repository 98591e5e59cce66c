"""A parser for the Erlang terms of VerneMQ's configuration: lists and tuples of atoms, numbers and strings.

`[{nodelay, true}, {linger, {true, 0}}]` becomes `(("nodelay", True), ("linger", (True, 0)))`: lists and tuples are
tuples here, atoms and strings are strings, `true` and `false` are booleans.
"""

from __future__ import annotations

import re
from typing import Any

_TOKEN = re.compile(r"""\s*(?:([\[\]{},])|(-?[0-9]{1,18}(?![0-9]))|'([^']*)'|"([^"]*)"|([A-Za-z][A-Za-z0-9_@.-]*))""")
_CLOSING = {"[": "]", "{": "}"}
_DEEPEST = 16
"""Deepest nesting. No option needs more, and it protects the stack."""


def parse_terms(text: str) -> tuple[Any, ...]:
    """Parse the elements of an Erlang list. Raises ValueError with the position of the error."""
    text = text.strip()
    tokens = _tokens(text)
    if not tokens or tokens[0][0] != "[":
        raise ValueError("a list in brackets")
    value, rest = _term(tokens, 0, 0)
    if rest != len(tokens):
        raise ValueError(f"no text after the list, at {tokens[rest][1]}")
    assert isinstance(value, tuple)
    return value


def _tokens(text: str) -> list[tuple[str, Any]]:
    """Pairs (kind, value): kind is the bracket itself, or "value"."""
    found: list[tuple[str, Any]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"an Erlang list; character {position + 1} is wrong")
        mark, number, quoted, string, atom = match.groups()
        if mark is not None:
            found.append((mark, mark))
        elif number is not None:
            found.append(("value", int(number)))
        elif atom in ("true", "false"):
            found.append(("value", atom == "true"))
        else:
            found.append(("value", quoted if quoted is not None else string if string is not None else atom))
        position = match.end()
    return found


def _term(tokens: list[tuple[str, Any]], at: int, depth: int) -> tuple[Any, int]:
    """The term that begins at token `at`, and the index after it."""
    if at >= len(tokens):
        raise ValueError("an Erlang list that is closed")
    kind, value = tokens[at]
    if kind == "value":
        return value, at + 1
    closing = _CLOSING.get(kind)
    if closing is None or depth >= _DEEPEST:
        raise ValueError(f"a value instead of {value}")
    return _elements(tokens, at + 1, closing, depth)


def _elements(tokens: list[tuple[str, Any]], at: int, closing: str, depth: int) -> tuple[tuple[Any, ...], int]:
    """Terms separated by commas up to the closing bracket, and the index after it."""
    items: list[Any] = []
    if at < len(tokens) and tokens[at][0] == closing:
        return (), at + 1
    while True:
        item, at = _term(tokens, at, depth + 1)
        items.append(item)
        if at >= len(tokens):
            raise ValueError("an Erlang list that is closed")
        kind = tokens[at][0]
        if kind == closing:
            return tuple(items), at + 1
        if kind != ",":
            raise ValueError(f"a comma or {closing} instead of {tokens[at][1]}")
        at += 1

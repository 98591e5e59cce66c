"""The keys whose values must not be shown."""

from __future__ import annotations

import re

_SECRET = re.compile(r"passw|pwd|secret|cookie\b|psk\b|api_key|mgmt_api\.key")
_NONE = re.compile(r"plugins\..*|.*_(?:file|interval|method)|cluster\.allow_default_cookie")
"""Keys with such a word that hold no secret: a plugin, a file, an interval, a kind of hash."""
_WORD = re.compile(r"[A-Za-z0-9_.-]+")


def is_secret(key: str) -> bool:
    """Whether the value of a key must not be shown."""
    return _SECRET.search(key) is not None and _NONE.fullmatch(key) is None


def names_a_secret(line: str) -> bool:
    """Whether a line that is no setting may hold such a value."""
    return any(is_secret(word) for word in _WORD.findall(line))

"""A line of the log: a sentence for people, and an event name with fields for programs.

A `Line` is a `str`, so it goes through any log port, `log(level, line)`. As text it is the sentence followed by the
fields as `name=value`; a formatter that writes JSON takes `event`, `text` and `fields` apart.
"""

from __future__ import annotations

import json
import re
from typing import Any

VALUE_LIMIT = 256
"""Number of characters of a value that are logged; a topic may have 65,535 bytes."""

_BARE = re.compile(r"[^\s\"=\\]+")


def escape(text: str) -> str:
    """The text on one line: control characters, line ends and other invisible characters as escapes."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def address(peer: tuple[str, int]) -> str:
    """Host and port of a client as one word."""
    return f"{peer[0]}:{peer[1]}"


def shorten(value: Any) -> Any:
    """A value of at most `VALUE_LIMIT` characters, lists and objects item by item."""
    if isinstance(value, str):
        return value if len(value) <= VALUE_LIMIT else f"{value[:VALUE_LIMIT]}... ({len(value)} characters)"
    if isinstance(value, dict):
        return {shorten(str(name)): shorten(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [shorten(each) for each in value]
    return value


def shown(value: Any) -> str:
    """The text of a value after `name=`: bare if it is one word of printable characters, else a JSON string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        text = ",".join(f"{name}:{each}" for name, each in value.items())
    elif isinstance(value, list | tuple):
        text = ",".join(map(str, value))
    else:
        text = str(value)
    if _BARE.fullmatch(text) and text.isprintable():
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else _json_escape(char) for char in quoted)


def _json_escape(char: str) -> str:
    r"""`\uXXXX`, or a pair of them, as JSON has it; `json.dumps` leaves DEL and C1 controls as they are."""
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


class Line(str):
    """One line. `event` is its kind, such as `lease.lost`; `text` the sentence; `fields` the values.

    Fields that are None, empty strings, lists or objects are left out.
    """

    event: str
    text: str
    fields: dict[str, Any]

    def __new__(cls, event: str, text: str, /, **fields: Any) -> Line:
        """Make a line of a sentence and the fields that have a value."""
        kept = {
            name: shorten(value) for name, value in fields.items() if value is not None and value not in ("", [], {})
        }
        self = super().__new__(cls, " ".join([text, *(f"{name}={shown(value)}" for name, value in kept.items())]))
        self.event, self.text, self.fields = event, text, kept
        return self

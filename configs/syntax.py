"""The syntax of vernemq.conf: `key = value`, comments, quotes.

As in VerneMQ, a `#` anywhere ends the value, and a value in single quotes is literal.
"""

from __future__ import annotations

import re

import msgspec

from .problems import Problem
from .secret_keys import names_a_secret

_KEY = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
TOPICS = "eventlog.topics"
"""VerneMQ does not have this key, and # is a wildcard in its filters."""
_QUOTED = re.compile(r"'([^']*)'\s*(?:#.*)?")


class Line(msgspec.Struct, frozen=True):
    """One assignment. `source` is `file:line`, "environment" or "override"; `file` and `line` as in `Problem`."""

    key: str
    text: str
    file: str
    line: int
    source: str

    @property
    def place(self) -> str:
        """The place for messages: `file:line`, or the name of the variable."""
        return f"{self.file}:{self.line}" if self.line else self.file


def read_lines(content: str, file: str) -> tuple[list[Line], list[Problem], list[str]]:
    """The assignments of a file, the problems, and warnings."""
    lines: list[Line] = []
    problems: list[Problem] = []
    warnings: list[str] = []
    for number, raw in enumerate(content.split("\n"), 1):
        text = raw.strip()
        if not text or text.startswith("#"):
            continue
        key, equals, rest = text.partition("=")
        key = key.strip()
        if not equals or _KEY.fullmatch(key) is None:
            found = "" if names_a_secret(text) else text
            problems.append(Problem(file, number, "", "this is no setting", "key = value", found))
            continue
        value, cut = _value(rest.strip())
        if cut and key == TOPICS:
            expected = "the value in single quotes, so that # begins no comment"
            problems.append(Problem(file, number, key, "the value ends at the #", expected, rest.strip()))
        elif cut:
            warnings.append(
                f"{file}:{number}: {key}: the value ends at the #; put the value in single quotes to keep the #"
            )
        lines.append(Line(key, value, file, number, f"{file}:{number}"))
    return lines, problems, warnings


def quoted(value: str) -> str:
    """The value as a file has it: in single quotes if a # would end it."""
    return f"'{value}'" if "#" in value else value


def unquoted(text: str) -> str | None:
    """The value between single quotes; None if it has none."""
    quoted = _QUOTED.fullmatch(text)
    return quoted[1] if quoted is not None else None


def _value(text: str) -> tuple[str, bool]:
    """The value without comment and quotes, and whether a `#` without space before it may belong to the value."""
    literal = unquoted(text)
    if literal is not None:
        return literal, False
    value, mark, _ = text.partition("#")
    return value.strip(), bool(mark) and value != "" and not value[-1].isspace()

"""The log of a node: plain lines from everywhere and lines of domain events, both limited in number.

A client that is refused in a loop, or a network that flaps, writes at most `BURST` lines of one kind between two calls
of `flush`; the others are counted, and `flush` writes one line with the count and the names that it met. So a log on
disk grows by a bounded amount for each kind and interval, whatever clients and other nodes do. The commands of
administrators are all written: nobody may hide them behind other lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .log_events import LINES, line_of
from .log_line import Line

FLUSH_S = 10.0
"""How often the shell calls `flush`, in seconds."""

BURST = 20
"""Lines of one kind of event that are written between two calls of `flush`."""

PLAIN = 200
"""Lines without a kind that are written between two calls of `flush`, for each level."""

ADMIN_COMMAND = "admin.command"
"""The kind of a line that tells of a command of an administrator. These lines are not limited."""

NAMES = 5
"""Number of names of each field that the line with the count of left-out lines has."""

_COUNTED = (
    ("client", "client_id"),
    ("client_id", "client_id"),
    ("username", "user"),
    ("user", "user"),
    ("peer", "peer"),
    ("reason", "reason"),
)
"""Fields whose values are counted: as they are called in an event or a line, and in the log."""

Write = Callable[[str, str], None]
"""Takes a level of vernemq.conf and a line, which may be a `Line`."""


class _Rest:
    """The lines that were not written since the last flush: their number, and the names in them."""

    __slots__ = ("count", "level", "names")

    def __init__(self, level: str) -> None:
        self.level = level
        self.count = 0
        self.names: dict[str, dict[str, int]] = {}

    def add(self, fields: Mapping[str, Any]) -> None:
        self.count += 1
        for name, field in _COUNTED:
            value = fields.get(name)
            if isinstance(value, str) and value:
                names = self.names.setdefault(field, {})
                if value in names or len(names) < NAMES:
                    names[value] = names.get(value, 0) + 1


class Journal:
    """A log port, `journal(level, line)`, and a sink of domain events, `journal.event`. `write` takes the lines.

    `debug`: whether lines of the level debug are wanted. They are not limited, because the operator asked for them.
    """

    def __init__(self, write: Write, debug: bool = False) -> None:
        self.write = write
        self._debug = debug
        self._written: dict[str, int] = {}
        self._rest: dict[str, _Rest] = {}

    def __call__(self, level: str, line: str) -> None:
        """Log a line, or count it if there are too many of its kind."""
        if level == "debug":
            if self._debug:
                self.write(level, line)
        elif isinstance(line, Line):
            if line.event == ADMIN_COMMAND or self._take(line.event, BURST):
                self.write(level, line)
            else:
                self._leave_out(line.event, level, line.fields)
        elif self._take(f"log.{level}", PLAIN):
            self.write(level, line)
        else:
            self._leave_out(f"log.{level}", level, {})

    def event(self, row: Mapping[str, Any]) -> None:
        """Log a domain event, if `log_events.LINES` has a line for its type."""
        type_ = row["type"]
        known = LINES.get(type_)
        if known is None:
            return
        level = known.level(row)
        if level == "debug":
            if self._debug:
                self.write(level, line_of(row))
        elif self._take(type_, BURST):
            self.write(level, line_of(row))
        else:
            self._leave_out(type_, level, row)

    def flush(self) -> None:
        """Write the counts since the last call, and reset them."""
        rest, self._rest = self._rest, {}
        self._written = {}
        for kind, each in sorted(rest.items()):
            names = {field: _named(found) for field, found in each.names.items()}
            self.write(each.level, Line(kind, f"{each.count} more of these", count=each.count, **names))

    def _take(self, kind: str, most: int) -> bool:
        written = self._written.get(kind, 0)
        if written >= most:
            return False
        self._written[kind] = written + 1
        return True

    def _leave_out(self, kind: str, level: str, fields: Mapping[str, Any]) -> None:
        rest = self._rest.get(kind)
        if rest is None:
            rest = self._rest[kind] = _Rest(level)
        rest.add(fields)


def _named(found: dict[str, int]) -> list[str]:
    """`name (count)`, the most frequent first."""
    return [f"{name} ({count})" for name, count in sorted(found.items(), key=lambda each: -each[1])]

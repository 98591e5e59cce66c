"""Keys of old versions of VerneMQ: what each means now."""

from __future__ import annotations

from .problems import Problem
from .schema import Removed, Schema
from .syntax import Line

_SOFTENED = ("publish", "subscribe", "unsubscribe")
"""Operations that `trade_consistency` allows during a netsplit. It never affected the registration of clients."""


def without_removed(lines: list[Line], schema: Schema) -> tuple[list[Line], list[Problem], list[str]]:
    """Returns the lines without removed keys, the problems of their values, and the warnings.

    `trade_consistency = on` adds its equivalent lines before the others, so that explicit lines win.
    """
    kept: list[Line] = []
    added: dict[str, Line] = {}
    problems: list[Problem] = []
    warnings: list[str] = []
    for line in lines:
        removed = schema.removed.get(line.key)
        if removed is None:
            kept.append(line)
        else:
            warnings.append(_warning(line, removed))
            if removed.action == "netsplit":
                problems += _netsplit(line, added)
    return [*added.values(), *kept], problems, warnings


def _warning(line: Line, removed: Removed) -> str:
    advice = f"; use {removed.replacement}" if removed.replacement else ""
    return f"{line.place}: {line.key} {removed.meaning}{advice}"


def _netsplit(line: Line, added: dict[str, Line]) -> list[Problem]:
    if line.text not in ("on", "off"):
        return [Problem(line.file, line.line, line.key, "wrong value", "on or off", line.text)]
    for operation in _SOFTENED:
        key = f"allow_{operation}_during_netsplit"
        if line.text == "on":
            added[key] = Line(key, "on", line.file, line.line, line.source)
        else:
            added.pop(key, None)
    return []

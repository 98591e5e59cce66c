"""Which nodes wrote the rows of which messages, and when.

A node that starts with `eventlog.level = session` writes no rows of messages until the level is raised: it is *silent*.
So a message that it had to do with may have happened, and the log does not show it.

All other nodes write all rows of a message, or leave it out as a whole (`cluster/identity.py`): a node that accepts a
message leaves it out because of filters, a lowered level, or a writer that does not keep up. Nothing is unknown then,
but what a message left in the state of a topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .rows import NEVER, Row, settings_of

_LEVEL: Final = "eventlog.level"
_REDACTED: Final = "eventlog.redact"
_PLAIN: Final = "off"
"""No names are replaced. Older logs say nothing then, and nothing at all in node.join."""
_FILTERS: Final = ("eventlog.clients", "eventlog.topics")
_NOTHING: Final = ("", '""', "[]")
"""How a list without elements is written."""
Span = tuple[int, int]
"""Stamps, from the first until before the second; `NEVER` if it has not ended."""


class Writing:
    """Of all nodes. `note` takes rows of node.start, node.join, config.change, log.sample and node.stats, in order."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, Row]] = []
        """The key with which each boot replaced names, as a fingerprint or `off`, and its first row in the run."""
        self.left_out: dict[tuple[str, int], int] = {}
        """(node, boot) -> messages that it left out as a whole."""
        self._silent: dict[str, list[Span]] = {}
        self._partial: dict[str, list[Span]] = {}
        self._reasons: dict[str, set[str]] = {}

    def note(self, row: Row) -> None:
        """Read a row."""
        node, kind = row["node"], row["type"]
        reasons = self._reasons.setdefault(node, set())
        if kind in ("node.start", "node.join"):
            reasons.clear()
            if row.get("level") not in (None, "message"):
                reasons.add("silent")
            settings = dict(settings_of(row))
            for key, value in settings.items():
                self._filtered(reasons, key, value)
            key = settings.get(_REDACTED, "" if kind == "node.join" else _PLAIN)
            if key:
                self.keys.append((key, row))
        elif kind == "config.change":
            self._changed(reasons, row["key"], row.get("new") or "")
        elif kind == "log.sample":
            (reasons.add if row["state"] == "begin" else reasons.discard)("sample")
        elif row.get("left_out"):
            self.left_out[node, row["boot"]] = row["left_out"]
        _set(self._silent.setdefault(node, []), "silent" in reasons, row["hlc"])
        _set(self._partial.setdefault(node, []), bool(reasons), row["hlc"])

    def _changed(self, reasons: set[str], key: str, value: str) -> None:
        self._filtered(reasons, key, value)
        if key != _LEVEL:
            return
        if value == "message":
            reasons.difference_update(("silent", "level"))
        elif "silent" not in reasons:
            reasons.add("level")

    @staticmethod
    def _filtered(reasons: set[str], key: str, value: str) -> None:
        if key in _FILTERS:
            (reasons.discard if value in _NOTHING else reasons.add)(key)

    def silent_after(self, nodes: Iterable[str], stamp: int) -> bool:
        """Whether one of the nodes wrote no rows of messages at any time after a stamp."""
        return any(end > stamp for node in nodes for _, end in self._silent.get(node, ()))

    def silent_before(self, node: str, stamp: int) -> bool:
        """Whether a node wrote no rows of messages at any time before a stamp."""
        return any(begin < stamp for begin, _ in self._silent.get(node, ()))

    def all_written(self, nodes: Iterable[str], begin: int, end: int) -> bool:
        """Whether these nodes wrote the rows of all messages that they accepted from `begin` to `end`."""
        return not any(since <= end and begin < until for node in nodes for since, until in self._partial.get(node, ()))


def _set(spans: list[Span], on: bool, stamp: int) -> None:
    last = spans[-1] if spans else (0, 0)
    if on and last[1] != NEVER:
        spans.append((stamp, NEVER))
    elif not on and last[1] == NEVER:
        spans[-1] = (last[0], stamp)

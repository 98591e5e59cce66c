"""Finds partitions in an event log: which node was missing in the view of which node, and which node had no lease.

A clean session ends when its node leaves the view (H-18). A node without a lease forwards an accepted message at once
to the nodes that it reaches, and to the other nodes after the heal (docs/netsplit.md#what-on-loses).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]
NEVER = 1 << 62
Span = tuple[int, int]
"""Places in the log, from the first until before the second. A span that has not ended has `NEVER` as its second."""


class Partitions:
    """The partitions of one log. `note` takes every row, in order."""

    def __init__(self) -> None:
        self._away: dict[tuple[str, str], list[Span]] = {}
        self._alone: dict[str, list[Span]] = {}

    def note(self, place: int, row: Row) -> None:
        """Read a row of the log. Places rise from call to call."""
        kind, node = row["type"], row["node"]
        if kind == "mem.down":
            _begin(self._away.setdefault((node, row["target"]), []), place)
        elif kind == "mem.up":
            _end(self._away.get((node, row["target"]), []), place)
        elif kind in ("split.detect", "split.change"):
            if row.get("state") == "minority":
                _begin(self._alone.setdefault(node, []), place)
            else:
                _end(self._alone.get(node, []), place)
        elif kind in ("split.heal", "node.start"):
            _end(self._alone.get(node, []), place)

    def was_out_of_view(self, origin: str, node: str, begin: int, end: int) -> bool:
        """Whether the views of `origin` lacked `node` at any place from `begin` to `end`."""
        return any(left <= end and begin < back for left, back in self._away.get((origin, node), ()))

    def span_without_lease(self, node: str, place: int) -> Span | None:
        """Returns the span without a lease that contains the place; None if the node had a lease there."""
        for begin, end in self._alone.get(node, ()):
            if begin <= place < end:
                return begin, end
        return None


def _begin(spans: list[Span], place: int) -> None:
    if not spans or spans[-1][1] != NEVER:
        spans.append((place, NEVER))


def _end(spans: list[Span], place: int) -> None:
    if spans and spans[-1][1] == NEVER:
        spans[-1] = (spans[-1][0], place)

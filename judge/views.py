"""Which nodes were in the view of which node, and when, as the rows of that node say."""

from __future__ import annotations

from collections.abc import Iterable

from .rows import NEVER, Row

TYPES = frozenset(("mem.down", "mem.up", "mem.view", "node.start"))
"""The types of rows that are read."""


class Views:
    """The views of all nodes. `note` takes rows of `TYPES`, in order."""

    def __init__(self) -> None:
        self._spans: dict[str, dict[str, list[tuple[int, int]]]] = {}

    def note(self, row: Row) -> None:
        """Read a row; others than those of `TYPES` have no effect."""
        kind, stamp = row["type"], row["hlc"]
        there = self._spans.setdefault(row["node"], {})
        if kind == "mem.up":
            _enter(there, row["target"], stamp)
        elif kind == "mem.down":
            _leave(there, row["target"], stamp)
        elif kind == "mem.view":
            for each in row["nodes"]:
                _enter(there, each, stamp)
            for each in there.keys() - {*row["nodes"]}:
                _leave(there, each, stamp)
        elif kind == "node.start":
            for each in there:
                _leave(there, each, stamp)

    def of(self, origin: str) -> Iterable[str]:
        """Returns the nodes that have ever been in the view of `origin`."""
        return self._spans.get(origin, {}).keys()

    def entered(self) -> dict[str, int]:
        """Returns when each node that has ever been in a view entered the first one."""
        first: dict[str, int] = {}
        for there in self._spans.values():
            for node, spans in there.items():
                first[node] = min(first.get(node, NEVER), spans[0][0])
        return first

    def spans(self, origin: str, node: str) -> list[tuple[int, int]]:
        """Returns the spans of stamps in which `node` was in the view of `origin`, in order."""
        return self._spans.get(origin, {}).get(node, [])

    def had(self, origin: str, node: str, begin: int, end: int) -> bool:
        """Whether `node` was in the view of `origin` all the time from `begin` to `end`."""
        spans = self._spans.get(origin, {}).get(node, ())
        return any(entered <= begin and end < left for entered, left in spans)

    def left(self, origin: str, node: str, stamp: int) -> bool:
        """Whether `node` has been in the view of `origin`, and is not there at a stamp."""
        spans = self._spans.get(origin, {}).get(node, ())
        return any(left <= stamp for _, left in spans) and not self.had(origin, node, stamp, stamp)

    def lost(self, node: str, stamp: int) -> bool:
        """Whether a node that had `node` in its view does not have it at a stamp."""
        of_others = (there[node] for there in self._spans.values() if there.get(node))
        return not all(any(entered <= stamp < left for entered, left in spans) for spans in of_others)


def _enter(there: dict[str, list[tuple[int, int]]], node: str, stamp: int) -> None:
    spans = there.setdefault(node, [])
    if not spans or spans[-1][1] != NEVER:
        spans.append((stamp, NEVER))


def _leave(there: dict[str, list[tuple[int, int]]], node: str, stamp: int) -> None:
    spans = there.get(node)
    if spans and spans[-1][1] == NEVER:
        spans[-1] = (spans[-1][0], stamp)

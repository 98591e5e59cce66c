"""Finds partitions in an event log: which node was missing in the view of which node, and which node had no lease.

A clean session ends when its node leaves the view (H-18). A node without a lease forwards an accepted message at once
to the nodes that it reaches, and to the other nodes after the heal (docs/netsplit.md#what-on-loses).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from .rows import NEVER, Row

Span = tuple[int, int]
"""Stamps, from the first until before the second. A span that has not ended has `NEVER` as its second."""


class Partitions:
    """The partitions of one log. `note` takes the rows of nodes, views and incidents, in order."""

    def __init__(self) -> None:
        self._away: dict[tuple[str, str], list[Span]] = {}
        self._alone: dict[str, list[Span]] = {}
        self._unleased: dict[str, list[Span]] = {}
        self._leased: dict[str, list[Span]] = {}

    def note(self, row: Row) -> None:
        """Read a row of the log."""
        kind, node, stamp = row["type"], row["node"], row["hlc"]
        if kind == "mem.down":
            _begin(self._away.setdefault((node, row["target"]), []), stamp)
        elif kind == "mem.up":
            _end(self._away.get((node, row["target"]), []), stamp)
        elif kind in ("split.detect", "split.change"):
            if row.get("state") == "minority":
                _begin(self._alone.setdefault(node, []), stamp)
            else:
                _end(self._alone.get(node, []), stamp)
        elif kind in ("split.heal", "node.start"):
            _end(self._alone.get(node, []), stamp)
        elif kind == "lease.lose":
            _begin(self._unleased.setdefault(node, []), stamp)
            _end(self._leased.get(node, []), stamp)
        elif kind == "lease.get":
            _end(self._unleased.get(node, []), stamp)
            _begin(self._leased.setdefault(node, []), stamp)
        if kind in ("node.start", "node.join"):  # a node joins with an empty disk; its start may be in another run
            _end(self._unleased.get(node, []), stamp)
            _end(self._leased.get(node, []), stamp)

    def was_out_of_view(self, origin: str, node: str, begin: int, end: int) -> bool:
        """Whether the views of `origin` lacked `node` at any time from `begin` to `end`."""
        return any(left <= end and begin < back for left, back in self._away.get((origin, node), ()))

    def out_of_view_since(self, origin: str, node: str, stamp: int) -> int:
        """Returns since when the views of `origin` lacked `node` at a stamp; `NEVER` if they had it."""
        away = _containing(self._away.get((origin, node), ()), stamp)
        return NEVER if away is None else away[0]

    def span_without_lease(self, node: str, stamp: int) -> Span | None:
        """Returns the span without a lease that contains the stamp; None if the node had a lease then."""
        return _containing(self._alone.get(node, ()), stamp)

    def spans_without_lease(self, node: str) -> Sequence[Span]:
        """Returns all spans of a node without a lease, in order."""
        return self._alone.get(node, ())

    def span_after_a_lost_lease(self, node: str, stamp: int) -> Span | None:
        """Returns the span that contains the stamp and began when the node said that it had lost its lease."""
        return _containing(self._unleased.get(node, ()), stamp)

    def is_unleased(self, node: str, stamp: int) -> bool:
        """Whether the node had no lease, as its log says: it sees a minority, has lost it, or has just started."""
        leases = self._leased.get(node)
        lacks = leases is not None and _containing(leases, stamp) is None
        return lacks or self.span_without_lease(node, stamp) is not None

    def returns_of(self, node: str) -> list[int]:
        """Returns the stamps at which a node got a lease, but for its first one."""
        return [begin for begin, _ in self._leased.get(node, ())][1:]

    def had_lease(self, node: str, stamp: int) -> bool:
        """Whether the node had said that it has a lease, and not that it has lost it."""
        return _containing(self._leased.get(node, ()), stamp) is not None

    def loses_lease(self, node: str, stamp: int, within: int) -> bool:
        """Whether the node has a lease at a stamp, as the log says, and loses it at most `within` after that."""
        lost = self._unleased.get(node, ())
        return self.had_lease(node, stamp) and any(stamp < since <= stamp + within for since, _ in lost)

    def had_one_between(self, node: str, begin: int, end: int) -> bool:
        """Whether the node got a lease, or lost one, between two stamps; True if the log has none of its leases."""
        spans = (*self._leased.get(node, ()), *self._unleased.get(node, ()))
        return not spans or any(begin <= since <= end for since, _ in spans)

    def had_none_between(self, node: str, begin: int, end: int) -> bool:
        """Whether the node had no lease from one stamp to another, as its log says. If the log has none of its leases:
        whether it saw a minority all the time."""
        leases = self._leased.get(node)
        if leases is not None:
            return not any(since <= end and begin < until for since, until in leases)
        span = self.span_without_lease(node, begin)
        return span is not None and end < span[1]

    def had_for(self, node: str, begin: int, end: int, duration: int, last: int) -> bool:
        """Whether the node had a lease for so long in one go, between two stamps, or the log has none of its leases.
        One that it got after `begin`, and that the log does not see end, lasted until `last`."""
        leases = self._leased.get(node)
        if leases is None:
            return True
        for since, until in leases:
            if until == NEVER and since > begin:
                until = last
            if min(until, end) - max(since, begin) >= duration:
                return True
        return False

    def anybody_without_lease(self, nodes: Iterable[str], begin: int, end: int) -> bool:
        """Whether one of the nodes had no lease at any time from `begin` to `end`."""
        return any(left <= end and begin < back for node in nodes for left, back in self._alone.get(node, ()))


def _containing(spans: Sequence[Span], stamp: int) -> Span | None:
    at = bisect_right(spans, stamp, key=lambda span: span[0]) - 1
    return spans[at] if at >= 0 and stamp < spans[at][1] else None


def _begin(spans: list[Span], stamp: int) -> None:
    if not spans or spans[-1][1] != NEVER:
        spans.append((stamp, NEVER))


def _end(spans: list[Span], stamp: int) -> None:
    if spans and spans[-1][1] == NEVER:
        spans[-1] = (spans[-1][0], stamp)

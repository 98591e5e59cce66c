"""Checks that no row of an event log has a smaller stamp than a row of another node that led to it.

Whatever a node sends carries all that the node has done before: each row that it has written may have led to each row
that the receiver writes after the arrival. It does not matter what is sent: frames, calls, their answers, hellos and
welcomes. Only the end of a stream carries nothing.

A *hop* is the last row of a node before it sends, and the first row that the receiver writes after the arrival. All
other such pairs follow from hops, because the stamps of a node rise with its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..broker.reporting.events import AHEAD_MS
from ..judge.rows import LOGICAL_BITS

Row = Mapping[str, Any]


class Written(NamedTuple):
    """A row, and how many rows all nodes had written before it."""

    number: int
    row: Row


class Causes:
    """Counts the hops of one run in `hops`; `problems` has a sentence for each one whose stamps are not in order."""

    def __init__(self) -> None:
        self.hops = 0
        self.problems: list[str] = []
        self._rows = 0
        self._last: dict[str, Written] = {}
        self._arrived: dict[str, dict[str, Written]] = {}
        """Receiver -> sender -> the newest cause since the receiver's last row."""
        self._known: dict[tuple[str, str], int] = {}
        """Receiver and sender -> the number of the sender's newest row that is a cause of the receiver's rows."""

    def wrote(self, row: Row) -> None:
        """A node has written a row."""
        node = row["node"]
        if row["type"] == "node.start":
            self._arrived.pop(node, None)  # the process that took it has ended
        for sender, cause in self._arrived.pop(node, {}).items():
            self._known[node, sender] = cause.number
            self.hops += 1
            if is_inverted(cause.row, row):
                self.problems.append(inverted(cause.row, row))
        self._last[node] = Written(self._rows, row)
        self._rows += 1

    def sent(self, node: str) -> Written | None:
        """A node sends something. Returns what `took` needs when that arrives."""
        return self._last.get(node)

    def took(self, node: str, sent: object) -> None:
        """A node takes what another node has sent: the result of `sent`."""
        if not isinstance(sent, Written):
            return
        sender = sent.row["node"]
        arrived = self._arrived.setdefault(node, {})
        before = arrived.get(sender)
        newest = self._known.get((node, sender), -1) if before is None else before.number
        if sender != node and sent.number > newest:
            arrived[sender] = sent


def is_inverted(cause: Row, effect: Row) -> bool:
    """Whether the stamp of an effect is not larger than that of its cause. A cause that is more than a day ahead does
    not count, because nodes ignore such stamps."""
    ahead: int = cause["hlc"] - effect["hlc"]
    return 0 <= ahead < AHEAD_MS << LOGICAL_BITS


def inverted(cause: Row, effect: Row) -> str:
    """Returns a sentence about a row whose stamp is not larger than that of its cause."""
    return f"stamps: {_name(effect)} has no larger stamp than {_name(cause)}, which led to it"


def _name(row: Row) -> str:
    return f"{row['type']} (row {row['seq']} of boot {row['boot']} of {row['node']})"

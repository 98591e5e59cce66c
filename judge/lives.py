"""The boots of nodes: when they began, how they ended, and up to where their logs are known.

A boot has died if a later boot of its node followed it without `node.stop`, or if the log says that it was killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .rows import NEVER, Row


class BootRows(NamedTuple):
    """What the rows of one boot say together. `stopped`: the last one is `node.stop`."""

    first_seq: int
    first_hlc: int
    last_seq: int
    last_hlc: int
    stopped: bool

    @classmethod
    def of(cls, rows: Iterable[Row]) -> BootRows:
        """Returns the summary of all rows of a boot, in any order; there is at least one."""
        first = min(rows, key=_seq)
        last = max(rows, key=_seq)
        return cls(first["seq"], first["hlc"], last["seq"], last["hlc"], last["type"] == "node.stop")


class Lives:
    """The boots of all nodes. `boots` has them by (node, number)."""

    def __init__(self, boots: Mapping[tuple[str, int], BootRows]) -> None:
        self.boots = dict(boots)
        self.deaths: dict[tuple[str, int], int] = {}
        """(node, boot) -> stamp at which the log shows that it ended without an orderly stop."""
        self.first_boot: dict[str, int] = {}
        before: dict[str, int] = {}
        for node, boot in sorted(boots):
            self.first_boot.setdefault(node, boot)
            if node in before and not boots[node, before[node]].stopped:
                self.deaths[node, before[node]] = boots[node, boot].first_hlc
            before[node] = boot
        self._last = before

    def note(self, row: Row) -> None:
        """Read a row of type `fault.kill`, of the node that was killed."""
        if row["node"] in row["nodes"]:
            self.deaths[row["node"], row["boot"]] = row["hlc"]

    def death(self, node: str, boot: int) -> int:
        """Returns the stamp at which the log shows that a boot has died; `NEVER` if it shows none."""
        return self.deaths.get((node, boot), NEVER)

    def had_died(self, node: str, boot: int, stamp: int) -> bool:
        """Whether a boot had died before a stamp, as the log shows it."""
        return self.death(node, boot) < stamp

    def begins_inside(self, node: str, boot: int) -> bool:
        """Whether the log may lack rows of this boot, because it begins later, or with a later boot."""
        if boot <= self.first_boot.get(node, boot):
            first = self.boots.get((node, boot))
            return first is None or first.first_seq > 1
        return False


def _seq(row: Row) -> int:
    return int(row["seq"])

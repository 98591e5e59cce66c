"""The boots of nodes: when they began, how they ended, and up to where their logs are known.

A boot has died if a later boot of its node followed it without `node.stop`, or if the log says that it was killed.

The logs of nodes end at different times. A node's log is known up to its last row, and for ever if the node was
stopped. After a loss of power the last rows of a boot may be lost: `node.start` of the next boot says so (`tail_lost`).
Without that, rows are missing if it names another `seq` than the log has as the last one of the boot before
(`known_seq`): those at the end of that boot, or whole boots behind it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from .rows import BEFORE, LOGICAL_BITS, NEVER, Row
from .sessions import Home

UNDONE: Final = 1_000 << LOGICAL_BITS
"""What a node did in its last second may not have come to its disk."""
RENUMBERED: Final = 1_000
"""A cluster adds so many to the number of starts of a node that comes with an empty disk
(`cluster.membership.state_machine.UNLOGGED_MAX`). The files of the log may be those of both disks then."""
FAILING: Final = frozenset(("full", "failed"))
"""The states of a message store that takes nothing."""


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
    """The boots of all nodes, by (node, number). `complete`: no rows will come that the log does not have yet."""

    def __init__(self, boots: Mapping[tuple[str, int], BootRows], complete: bool = False) -> None:
        self.boots = dict(boots)
        self.tails: dict[str, list[tuple[int, int]]] = {}
        """Node -> from after which stamp until which stamp rows were lost at the end of a boot."""
        self.cut_off: dict[tuple[str, int], Row] = {}
        """(node, boot) -> the next `node.start`, which knows of rows behind the boot that the log does not have."""
        self.deaths: dict[tuple[str, int], int] = {}
        """(node, boot) -> stamp at which the log shows that it ended without an orderly stop."""
        self.failing_since: dict[tuple[str, int], int] = {}
        """(node, boot) -> since which stamp its message store takes nothing, as its last row about that says."""
        self.first_boot: dict[str, int] = {}
        self._numbers: dict[str, list[int]] = {}
        before: dict[str, int] = {}
        for node, boot in sorted(boots):
            self._numbers.setdefault(node, []).append(boot)
            self.first_boot.setdefault(node, boot)
            if node in before and not boots[node, before[node]].stopped:
                self.deaths[node, before[node]] = boots[node, boot].first_hlc
            before[node] = boot
        self._known = {
            node: NEVER if complete or boots[node, boot].stopped else boots[node, boot].last_hlc
            for node, boot in before.items()
        }
        self.end = max((boot.last_hlc for boot in boots.values()), default=BEFORE)
        """The stamp of the last row."""
        self.known_everywhere = min(self._known.values(), default=NEVER)
        """The stamp up to which the logs of all nodes are known."""

    def started(self, row: Row) -> None:
        """Read a `node.start`: whether rows behind the boot before were lost, or are missing."""
        node, boot = row["node"], row["boot"]
        numbers = self._numbers.get(node, [])
        at = bisect_left(numbers, boot)
        if not at or boot - numbers[at - 1] > RENUMBERED:
            return
        before, known = self.boots[node, numbers[at - 1]], row.get("known_seq")
        missing = not row.get("tail_lost") and known not in (None, before.last_seq)
        if missing:
            self.cut_off[node, numbers[at - 1]] = row
        if missing or row.get("tail_lost"):
            self.tails.setdefault(node, []).append((before.last_hlc, row["hlc"]))

    def followed(self, node: str, boot: int) -> int:
        """Returns the stamp at which the next boot of a node began; `NEVER` if the log has none."""
        numbers = self._numbers.get(node, [])
        at = bisect_right(numbers, boot)
        return self.boots[node, numbers[at]].first_hlc if at < len(numbers) else NEVER

    def known_up_to(self, node: str) -> int:
        """Returns the stamp up to which the log has what a node wrote; -1 for a node without a log."""
        return self._known.get(node, -1)

    def lost_after(self, nodes: Iterable[str], since: int) -> int:
        """Returns the stamp after which rows of one of the nodes were lost, of losses that lasted beyond `since`;
        `NEVER` if none were."""
        return min((begin for node in nodes for begin, end in self.tails.get(node, ()) if end > since), default=NEVER)

    def killed(self, row: Row) -> None:
        """Read a row of type `fault.kill`, of the node that was killed."""
        if row["node"] in row["nodes"]:
            self.deaths[row["node"], row["boot"]] = row["hlc"]

    def death(self, node: str, boot: int) -> int:
        """Returns the stamp at which the log shows that a boot has died; `NEVER` if it shows none."""
        return self.deaths.get((node, boot), NEVER)

    def last_sign(self, node: str, boot: int) -> int:
        """Returns the stamp of the last row of a boot that has died or stopped in order, however late the log shows its
        death; `NEVER` if the log shows neither."""
        rows, died = self.boots.get((node, boot)), self.death(node, boot)
        if rows is None:
            return died
        return rows.last_hlc if rows.stopped or died < NEVER else NEVER

    def death_with(self, homes: Sequence[Home]) -> int:
        """Returns the stamp at which the first boot died while it had a session, of those that had it one after the
        other; `NEVER` if none did."""
        for home, after in pairwise(homes):
            if self.death(home.node, home.boot) < after.since:
                return self.death(home.node, home.boot)
        return self.death(homes[-1].node, homes[-1].boot)

    def had_died(self, node: str, boot: int, stamp: int) -> bool:
        """Whether a boot had died before a stamp, as the log shows it."""
        return self.death(node, boot) < stamp

    def dies_silently(self, node: str, boot: int, stamp: int) -> bool:
        """Whether a boot has died, whenever the log shows that, and wrote no row after a stamp."""
        key = node, boot
        return self.death(*key) < NEVER and (key not in self.boots or self.boots[key].last_hlc < stamp)

    def was_up(self, node: str, begin: int, end: int) -> bool:
        """Whether one boot of the node lasted from before `begin` until after `end`. False if the log ends before."""
        newest = max((boot for name, boot in self.boots if name == node), default=0)
        for (name, number), boot in self.boots.items():
            if name == node and boot.first_hlc <= begin:
                lasts = number == newest and not boot.stopped and end <= min(self.end, self.death(node, number))
                if end <= boot.last_hlc or (lasts and end <= self.known_up_to(node)):
                    return True
        return False

    def stored(self, row: Row) -> None:
        """Read a row of type `store.state`: whether the message store of a node takes something."""
        key = row["node"], row["boot"]
        if row["state"] == "serving":
            self.failing_since.pop(key, None)
        elif row["state"] in FAILING:
            self.failing_since.setdefault(key, row["hlc"])

    def may_be_undone(self, row: Row, later: Row) -> bool:
        """Whether the node was killed before the later row, and its disk may lack what the first row says: it did that
        in its last second, or its message store has taken nothing since then."""
        key = row["node"], row["boot"]
        if not self.had_died(*key, later["hlc"]):
            return False
        if key not in self.boots:
            return True
        last = min(self.boots[key].last_hlc, self.failing_since.get(key, NEVER))
        return last - int(row["hlc"]) < UNDONE

    def begins_inside(self, node: str, boot: int) -> bool:
        """Whether the log may lack rows of this boot, because it begins later, or with a later boot."""
        if boot <= self.first_boot.get(node, boot):
            first = self.boots.get((node, boot))
            return first is None or first.first_seq > 1
        return False


def _seq(row: Row) -> int:
    return int(row["seq"])

"""Which commits of a store have reached the followers of its slots (P1).

A commit is safe when each follower that counts has acknowledged the item with its changes. `safe` is a prefix: a commit
waits for all before it. An acknowledgement names the slot table that the follower followed, and counts when this node
follows that table too: a follower that has become primary takes no change of its predecessor, but acknowledges the
items of the lane (H-46).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Protocol

import msgspec

from ...cluster.slots.table import Holder


class Counted(Protocol):
    """A copy of a slot, for which a commit may wait."""

    @property
    def counts(self) -> bool:
        """True while commits wait for the follower."""
        ...


Wait = tuple[str, int, list[Counted]]
"""What a commit waits for: a node, the number of an item in its lane, and the copies that are in it."""


class _Commit(msgspec.Struct, eq=False):
    """A commit that followers need: for each node the number of its item, and the copies that are in it."""

    number: int
    waits: list[Wait]


class CopyCommits:
    """The commits of one store.

    `last` is the last one that closed before now. `rivals`: slots that this node has lost, and followers that may get
    them as well as this node. While there are any, commits that were added go on waiting, whatever a follower
    acknowledges: its lane has been voided. `waited_ms`: for each node when the last item was sent for which a
    commit waits.
    """

    def __init__(self, last: int) -> None:
        self.last = last
        self.rivals: list[tuple[int, Holder]] = []
        self.waited_ms: dict[str, float] = {}
        self._pending: deque[_Commit] = deque()
        self._acked: dict[str, int] = {}
        self._noted: dict[str, tuple[int, int]] = {}
        """Node -> number and slot table of an acknowledgement that does not count yet."""
        self._table = 0

    @property
    def safe(self) -> int:
        """The last commit that no follower lacks, with all before it."""
        return self._pending[0].number - 1 if self._pending else self.last

    def add(self, commit: int, waits: list[Wait]) -> None:
        """A commit closes, or is open, and waits for these items. Without items it waits for the commits before it,
        and while commits are held."""
        self._pending.append(_Commit(commit, waits))

    def acked(self, node: str, upto: int, index: int) -> bool:
        """A node that followed the slot table `index` has all items up to a number. True if that counts now."""
        if index > self._table or node in self._noted:
            noted = self._noted.get(node, (0, 0))
            self._noted[node] = max(upto, noted[0]), max(index, noted[1])
            return False
        self._acked[node] = max(upto, self._acked.get(node, 0))
        return True

    def has(self, node: str, number: int) -> bool:
        """True if a node has acknowledged the item with this number."""
        return self._acked.get(node, 0) >= number

    def follow(self, table: int) -> list[tuple[str, int]]:
        """Note that this node follows the slot table with the index `table` now. Some acknowledgements have waited for
        that table and count from now on. Returns them: the node, and the number up to which it has all items."""
        self._table = table
        due = [(node, upto) for node, (upto, index) in self._noted.items() if index <= table]
        for node, upto in due:
            del self._noted[node]
            self._acked[node] = max(upto, self._acked.get(node, 0))
        return due

    def forget_all_but(self, fed: Collection[str]) -> list[str]:
        """Forget the acknowledgements of the other nodes, which follow no slot any more. Returns their names."""
        gone = [node for node in dict.fromkeys([*self._acked, *self._noted]) if node not in fed]
        for node in gone:
            self._acked.pop(node, None)
            self._noted.pop(node, None)
        return gone

    def settle(self) -> bool:
        """Let the commits go that no follower lacks any more. True if `safe` has risen."""
        pending, before = self._pending, self.safe
        while pending and not self.rivals and not any(self.lacks(*wait) for wait in pending[0].waits):
            pending.popleft()
        return self.safe > before

    def lacks(self, node: str, seq: int, copies: list[Counted]) -> bool:
        """True if a node has not acknowledged this item, and one of the copies in it counts."""
        return self._acked.get(node, 0) < seq and any(copy.counts for copy in copies)

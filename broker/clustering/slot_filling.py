"""Fills the copies of slots: sends the rows that are there, between the changes (`slot_replicator.py`).

    begun      the follower was asked whether it is ready
    filling    rows are under way, a few at a time; if the follower has kept rows, digests of them first
    counted    it has them all: from here on commits wait for it
    asked      the leader was asked to put it into the in-sync set
    in sync    the table has it

A node gets the copies one after the other, so that the first ones are in sync soon, whatever their number; only while
one waits for an answer to its digests, the next one goes on. What is under way to a node has a limit, because the
changes of commits go the same way, behind it. A node with many copies costs no more for each item than a node with one:
an acknowledgement touches only the copies whose items it has, and a turn only the copy that goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterator
from functools import partial
from typing import Protocol

import msgspec

from ...cluster.slots.table import Holder, SlotRow
from ...storage.engine import StorageError
from ..environment import Environment
from ..queues.records import RecordError
from .copy_codec import CopyAttempt, CopyItem, Digests, Rows
from .slot_comparison import Comparison

BEGUN, FILLING, COUNTED, ASKED, IN_SYNC = range(5)
"""The phases of a copy at its primary."""
SMALL, LARGE = (8 << 10, 8 << 10), (64 << 10, 512 << 10)
"""Bytes of rows in one item, and under way to one node: while commits wait for that node, and while none does. A commit
waits behind the rows that are under way: a fill raised the median of PUBACK 4 to 8 times with four small items, and 1.3
to 2.3 times with one (1,500/s, three nodes on two cores)."""
GROWTH_MS = 1_000
"""While commits wait, an item grows by the size of a small one in this time, up to that of a large one. A copy that
takes long is large, or its node needs long for each item, however small: copies of other slots wait for its end."""


class SlotRows(Protocol):
    """The rows of a node's slots."""

    def rows(self, slot: int, after: bytes, upto: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the present rows of the slot behind the key `after` up to the key `upto`, b"" for the end. Raises
        `StorageError`, `RecordError`."""
        ...

    def last_of_series(self, key: bytes) -> bytes:
        """As `LastOfSeries`. Raises `StorageError`."""
        ...


class Copy(msgspec.Struct, eq=False):
    """A copy at `holder`. `left`: what the follower still needs. `sent`: items with rows or digests that it has not
    acknowledged. `asked`: the last requested row of the table. `said`, `said_ms`: the number of the last item that
    needs an answer, and when it was sent. `filled_since_ms`: when the first rows or digests were sent. `bytes`: those
    of all items and answers but changes."""

    attempt: CopyAttempt
    holder: Holder
    phase: int = BEGUN
    left: Comparison = msgspec.field(default_factory=lambda: Comparison(False))
    sent: int = 0
    asked: SlotRow | None = None
    said: int = 0
    said_ms: float = 0.0
    filled_since_ms: float = 0.0
    bytes: int = 0
    over: bool = False

    @property
    def counts(self) -> bool:
        """True if commits wait for this copy."""
        return self.phase >= COUNTED and not self.over

    @property
    def filled(self) -> bool:
        """True if the follower has all rows."""
        return self.phase == FILLING and self.left.complete and not self.sent


class _Feed(msgspec.Struct):
    """One node that gets copies. `rows`, `digests`: the copies that need to send such items next, the first one first.
    `sent`: number, bytes of rows and copy of each unacknowledged item; `bytes`: their sum. `compared`: the copy whose
    digests the node has to compare."""

    rows: dict[Copy, None] = msgspec.field(default_factory=dict)
    digests: dict[Copy, None] = msgspec.field(default_factory=dict)
    sent: deque[tuple[int, int, Copy]] = msgspec.field(default_factory=deque)
    bytes: int = 0
    compared: Copy | None = None

    @property
    def compares(self) -> bool:
        """True if the node has digests to compare: then those of other copies wait, so that its turns stay short."""
        return self.compared is not None and not self.compared.over and self.compared.left.waits


class SlotFilling:
    """The filling at one node. `give` sends an item of a copy and returns its number; `give_up` ends a copy whose rows
    cannot be read; `is_quiet` tells whether no commit has waited for a node for a while."""

    def __init__(
        self,
        env: Environment,
        slot_rows: SlotRows,
        now_ms: Callable[[], float],
        give: Callable[[Copy, CopyItem], int],
        give_up: Callable[[Copy], None],
        is_quiet: Callable[[str], bool],
    ) -> None:
        self._env = env
        self._slot_rows = slot_rows
        self._now_ms = now_ms
        self._give = give
        self._give_up = give_up
        self._is_quiet = is_quiet
        self._feeds: dict[str, _Feed] = {}
        """The next node first."""
        self._planned = False

    def begin(self, copy: Copy, kept: bool) -> None:
        """The follower is ready; `kept`: it has kept rows."""
        copy.left = Comparison(kept)
        self.go_on(copy)

    def go_on(self, copy: Copy) -> None:
        """The copy may have something to send. One that is in sync has not: another module compares its rows."""
        if copy.over or copy.phase > FILLING:
            return
        self._place(copy, self._feeds.setdefault(copy.holder.node, _Feed()))
        self._plan()

    def acked(self, node: str, upto: int) -> None:
        """A node has all items up to this number."""
        feed = self._feeds.get(node)
        if feed is None or not feed.sent or feed.sent[0][0] > upto:
            return
        while feed.sent and feed.sent[0][0] <= upto:
            _, size, copy = feed.sent.popleft()
            feed.bytes -= size
            copy.sent -= 1
            self._end_if_filled(copy)
        self._plan()

    def ended(self, copy: Copy) -> None:
        """The copy is over. Others may have waited for the answer to its digests."""
        if (feed := self._feeds.get(copy.holder.node)) is not None:
            feed.rows.pop(copy, None)
            feed.digests.pop(copy, None)
            self._plan()

    def forget_all_but(self, fed: Container[str]) -> None:
        """The other nodes have no copies: what is under way to them does not count any more."""
        for node in [node for node in self._feeds if node not in fed]:
            del self._feeds[node]

    # -- turns

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            self._env.background(self._turn)

    def _turn(self) -> None:
        """Send one item: a node that gets many slots at once would else stand still for a while."""
        self._planned = False
        for node, feed in self._feeds.items():
            if (copy := self._next(node, feed)) is not None:
                self._feeds[node] = self._feeds.pop(node)
                self._plan()
                self._send(copy, feed)
                return

    def _next(self, node: str, feed: _Feed) -> Copy | None:
        """Returns the copy of a node that can go on; None if none can."""
        if feed.rows and feed.bytes < (LARGE if self._is_quiet(node) else SMALL)[1]:
            return next(iter(feed.rows))
        if feed.digests and not feed.compares:
            return next(iter(feed.digests))
        return None

    def _size(self, copy: Copy) -> int:
        """Bytes of rows in the next item of a copy."""
        if self._is_quiet(copy.holder.node):
            return LARGE[0]
        took_ms = self._now_ms() - copy.filled_since_ms
        return min(SMALL[0] * (1 + int(took_ms / GROWTH_MS)), LARGE[0])

    def _send(self, copy: Copy, feed: _Feed) -> None:
        """Send some of the rows or digests that are left, in the turn in which they are read: a change of a row that is
        sent before the row would be undone by it."""
        left, between = copy.left, partial(self._slot_rows.rows, copy.attempt.slot)
        if copy.phase == BEGUN:
            copy.phase, copy.filled_since_ms = FILLING, self._now_ms()
        try:
            if left.needs_digests:
                self._give_item(copy, feed, Digests(copy.attempt, *left.digests(between)), 0)
                feed.compared, copy.said_ms = copy, self._now_ms()
            else:
                after, upto, rows = left.rows(between, self._size(copy), self._slot_rows.last_of_series)
                if rows or left.kept:
                    self._give_item(copy, feed, Rows(copy.attempt, rows, after, upto), sum(map(len, rows)))
        except (StorageError, RecordError) as error:
            self._env.log("error", f"slot {copy.attempt.slot} cannot be copied to {copy.holder.node}: {error}")
            self._give_up(copy)
            return
        self._place(copy, feed)
        self._end_if_filled(copy)

    def _give_item(self, copy: Copy, feed: _Feed, item: CopyItem, rows_bytes: int) -> None:
        feed.sent.append((self._give(copy, item), rows_bytes, copy))
        feed.bytes += rows_bytes
        copy.sent += 1

    def _place(self, copy: Copy, feed: _Feed) -> None:
        """Let the copy wait for its turn if it needs one. It keeps its place."""
        for needed, waiting in ((copy.left.needs_rows, feed.rows), (copy.left.needs_digests, feed.digests)):
            if needed:
                waiting[copy] = None
            else:
                waiting.pop(copy, None)

    def _end_if_filled(self, copy: Copy) -> None:
        """The batch that closes after the last row ends the fill."""
        if copy.filled and not copy.over:
            # rows that were read from the open batch are in the changes of that batch: End follows them
            self._env.store.when_landed(self._env.store.open_commit, _nothing)


def _nothing() -> None:
    """The commit matters, and not its end."""

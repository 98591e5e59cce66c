"""Changes of slots that are in no item yet. Those that nobody waits for go with the next item to their node.

Such a change is the deletion of a message that its subscriber has acknowledged (`Store.write_later`). The message had
its copy at one node, and the next message may have it at another: then the commit with both would cost two items, and
two commits at followers. So a node gets what nobody waits for with its next item, after `LATEST_MS` at the latest.

The changes for a node stay in the order of their commits, and no item overtakes them. So a follower always has the rows
of a slot as they were after some commit. It may lack later commits that only have changes nobody waits for: it is where
a primary is that was killed before these commits.
"""

from __future__ import annotations

from collections.abc import Callable, Container

import msgspec

from ...cluster.links.ports import Timer
from .copy_codec import ChangesWriter, CopyAttempt
from .copy_commits import Counted

LATEST_MS = 20.0
"""The longest time in ms that changes wait for an item."""
LEAST_MS = 1.0
"""The shortest wait of a timer in ms: clocks are not exact, and a timer may come a little early."""
MOST_BYTES = 16 << 10
"""Changes of this size do not wait."""


class _Gathered(msgspec.Struct, eq=False):
    """The changes for one node, and the copies that they belong to. `since_ms`: when the first one came. `due`: they do
    not wait any longer."""

    since_ms: float
    writer: ChangesWriter = msgspec.field(default_factory=ChangesWriter)
    copies: list[Counted] = []
    bytes: int = 0
    due: bool = False


class LateChanges:
    """The changes that wait at one node. `send` sends those for a node, which it takes, when they have waited for
    `LATEST_MS`."""

    def __init__(
        self,
        now_ms: Callable[[], float],
        later: Callable[[float, Callable[[], None]], Timer],
        send: Callable[[str], object],
    ) -> None:
        self._now_ms = now_ms
        self._later = later
        self._send = send
        self._gathered: dict[str, _Gathered] = {}
        self._timer_runs = False

    def add(self, node: str, attempt: CopyAttempt, copy: Counted, changes: list[bytes | None], late: bool) -> None:
        """Add the changes of one slot, behind those that wait for the node. `late`: nobody waits for them."""
        gathered = self._gathered.get(node)
        if gathered is None:
            gathered = self._gathered[node] = _Gathered(self._now_ms())
        gathered.writer.add(attempt, changes)
        gathered.copies.append(copy)
        if late:
            gathered.bytes += sum([len(each) for each in changes if each is not None])
        if not late or gathered.bytes >= MOST_BYTES:
            gathered.due = True

    def due(self) -> list[str]:
        """Return the nodes whose changes do not wait any longer; the others' get a bound in time."""
        if self._gathered and not self._timer_runs:
            self._wait(LATEST_MS)
        return [node for node, gathered in self._gathered.items() if gathered.due]

    def take(self, node: str) -> tuple[bytes, list[Counted]] | None:
        """Take the changes for a node: the item, and the copies that commits wait for. None if there are none."""
        gathered = self._gathered.pop(node, None)
        if gathered is None:
            return None
        return gathered.writer.encoded(), [copy for copy in gathered.copies if copy.counts]

    @property
    def nodes(self) -> list[str]:
        """The nodes for which changes wait."""
        return list(self._gathered)

    def forget_all_but(self, fed: Container[str]) -> None:
        """Forget the changes for the other nodes, which follow no slot any more."""
        self._gathered = {node: gathered for node, gathered in self._gathered.items() if node in fed}

    def _wait(self, for_ms: float) -> None:
        self._timer_runs = True
        self._later(for_ms / 1000, self._look)

    def _look(self) -> None:
        """Send what has waited for long enough. What came later gets a timer of its own."""
        self._timer_runs = False
        now_ms = self._now_ms()
        for node, gathered in list(self._gathered.items()):
            if now_ms - gathered.since_ms >= LATEST_MS:
                self._send(node)
        if self._gathered:
            first_ms = min(gathered.since_ms for gathered in self._gathered.values())
            self._wait(max(LEAST_MS, first_ms + LATEST_MS - now_ms))

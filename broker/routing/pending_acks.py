"""The conditions on other nodes that an acknowledgement waits for (H-07; P4).

One condition is open for each node that must have a copy, and for each barrier after a write to the replicated map. The
node's acknowledgement or a view without the node meets the condition; a timeout never does. A barrier that takes too
long fails and its condition stays open: if the client repeats its packet, the answer waits again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from .remote import RemoteMembers


class PendingAcks(msgspec.Struct, eq=False):
    """Counts the open conditions of one answer; calls `waiter` once when the last one is met."""

    open: int = 0
    waiter: Callable[[], None] | None = None
    retry_with: Callable[[PendingAcks], None] | None = None
    """Starts another wait for a condition that took too long; None if none did."""
    reselected: Callable[[RemoteMembers, str | None, Mapping[str, int]], bool] | None = None
    """Records that other members get a QoS 2 message instead of these: members on another node, or one here (None), as
    in `Router.slots_of_members`. True if the record must be safe before a copy leaves (H-12)."""

    @property
    def failed(self) -> bool:
        """True if a condition took longer than allowed."""
        return self.retry_with is not None

    def add(self) -> PendingAcks:
        """Open one more condition."""
        self.open += 1
        return self

    def complete(self) -> None:
        """One condition is met."""
        assert self.open > 0
        self.open -= 1
        if not self.open:
            self._tell()

    def fail(self, retry_with: Callable[[PendingAcks], None]) -> None:
        """A condition took longer than allowed: call the waiter, which must handle that.

        The condition stays open, and nothing meets it before `retry_with` is called.
        """
        self.retry_with = retry_with
        self._tell()

    def retry(self) -> None:
        """The client has repeated its packet: wait again for the condition that took too long."""
        retry_with, self.retry_with = self.retry_with, None
        if retry_with is not None:
            retry_with(self)

    def _tell(self) -> None:
        if self.waiter is not None:
            waiter, self.waiter = self.waiter, None
            waiter()


def complete_all(pending: Iterable[PendingAcks]) -> None:
    """Meet one condition of each item, then call the waiters of the items that have none left.

    A waiter that handles another complete item clears that item's `waiter`. So it is called once for all its items.
    """
    over = []
    for each in pending:
        assert each.open > 0
        each.open -= 1
        if not each.open and each.waiter is not None:
            over.append(each)
    for each in over:
        waiter, each.waiter = each.waiter, None
        if waiter is not None:
            waiter()

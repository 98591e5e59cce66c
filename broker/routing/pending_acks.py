"""The conditions on other nodes that an acknowledgement waits for (H-07; P4).

One thing is pending for each node that has to have a copy, and for each barrier that metadata written with a message
has to pass. It is completed by that node's acknowledgement or by a view without it, never by time. A barrier that takes
too long fails and stays pending: the client that asks for the answer again waits for it once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from .remote import RemoteMembers


class PendingAcks(msgspec.Struct, eq=False):
    """Counts the open conditions of one answer; calls `waiter` once when the last one is met."""

    open: int = 0
    waiter: Callable[[], None] | None = None
    retry_with: Callable[[PendingAcks], None] | None = None
    """Waits once more for a condition that took too long."""
    reselected: Callable[[RemoteMembers, str | None], bool] | None = None
    """Notes that other members get a QoS 2 message instead of these: those of another node, or one here (None). True if
    that has to be safe before anything leaves (H-12)."""

    @property
    def failed(self) -> bool:
        """Something took longer than is allowed."""
        return self.retry_with is not None

    def add(self) -> PendingAcks:
        """One more thing is pending."""
        self.open += 1
        return self

    def complete(self) -> None:
        """One thing less is pending."""
        assert self.open > 0
        self.open -= 1
        if not self.open:
            self._tell()

    def fail(self, retry_with: Callable[[PendingAcks], None]) -> None:
        """One thing took longer than is allowed: the waiter has to answer that. The thing stays pending, and nothing
        completes it before `retry_with` is called."""
        self.retry_with = retry_with
        self._tell()

    def retry(self) -> None:
        """The client asks for the answer again: wait once more for the conditions that took too long."""
        retry_with, self.retry_with = self.retry_with, None
        if retry_with is not None:
            retry_with(self)

    def _tell(self) -> None:
        if self.waiter is not None:
            waiter, self.waiter = self.waiter, None
            waiter()


def complete_all(pending: Iterable[PendingAcks]) -> None:
    """One thing less is pending for each. Waiters are called after all of them, so one that answers for many is called
    once: a waiter that finds another item complete takes that item's `waiter` away."""
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

"""What has to be true on other nodes before an acknowledgement may leave (H-07; P4).

An obligation is open for each node that has to have a copy, and for each barrier that metadata written with a message
has to pass. It is discharged by that node's acknowledgement or by a view without it, never by time. A barrier that
takes too long fails, and is owed all the same: whoever is asked for the answer again waits for it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from .remote import RemoteMembers


class PendingAcks(msgspec.Struct, eq=False):
    """Counts what is owed for one answer; `waiter` is called once when the last of it is discharged."""

    open: int = 0
    waiter: Callable[[], None] | None = None
    anew: Callable[[PendingAcks], None] | None = None
    """Waits anew for what took too long."""
    redrawn: Callable[[RemoteMembers, str | None], bool] | None = None
    """Notes who gets a QoS 2 message instead of these members: those of another node, or one here (None). True if that
    has to be safe before anything leaves (H-12)."""

    @property
    def failed(self) -> bool:
        """Something took longer than is allowed."""
        return self.anew is not None

    def owe(self) -> PendingAcks:
        """One more thing is owed."""
        self.open += 1
        return self

    def discharge(self) -> None:
        """One thing less is owed."""
        assert self.open > 0
        self.open -= 1
        if not self.open:
            self._tell()

    def fail(self, anew: Callable[[PendingAcks], None]) -> None:
        """One thing that is owed took longer than is allowed: whoever waits has to answer that. It stays open, and
        nobody discharges it before `anew` is called."""
        self.anew = anew
        self._tell()

    def again(self) -> None:
        """The answer is asked for again: what took too long is waited for anew."""
        anew, self.anew = self.anew, None
        if anew is not None:
            anew(self)

    def _tell(self) -> None:
        if self.waiter is not None:
            waiter, self.waiter = self.waiter, None
            waiter()


def discharge_all(owed: Iterable[PendingAcks]) -> None:
    """One thing less is owed for each. Waiters are told after all of them, so one that answers for many is told once:
    who finds an obligation discharged before he was told takes his `waiter` away."""
    over = []
    for each in owed:
        assert each.open > 0
        each.open -= 1
        if not each.open and each.waiter is not None:
            over.append(each)
    for each in over:
        waiter, each.waiter = each.waiter, None
        if waiter is not None:
            waiter()

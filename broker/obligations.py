"""What has to be true on other nodes before an acknowledgement may leave (review, hole 7; P4).

An obligation is open for each node that has to have a copy, and for each barrier that metadata written with a message
has to pass. It is discharged by that node's acknowledgement or by a view without it, never by time. A barrier that
takes too long fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec


class Obligation(msgspec.Struct, eq=False, gc=False):
    """Counts what is owed for one answer; `waiter` is called once when the last of it is discharged."""

    open: int = 0
    failed: bool = False
    waiter: Callable[[], None] | None = None

    def owe(self) -> Obligation:
        """One more thing is owed."""
        self.open += 1
        return self

    def discharge(self) -> None:
        """One thing less is owed."""
        if self.failed:
            return
        assert self.open > 0
        self.open -= 1
        if not self.open:
            self._tell()

    def fail(self) -> None:
        """What is owed took longer than is allowed: whoever waits has to answer that."""
        self.failed = True
        self.open = 0
        self._tell()

    def _tell(self) -> None:
        if self.waiter is not None:
            waiter, self.waiter = self.waiter, None
            waiter()


def discharge_all(owed: Iterable[Obligation]) -> None:
    """One thing less is owed for each. Waiters are told after all of them, so one that answers for many is told once:
    who finds an obligation discharged before he was told takes his `waiter` away."""
    over = []
    for each in owed:
        if not each.failed:
            assert each.open > 0
            each.open -= 1
            if not each.open and each.waiter is not None:
                over.append(each)
    for each in over:
        waiter, each.waiter = each.waiter, None
        if waiter is not None:
            waiter()

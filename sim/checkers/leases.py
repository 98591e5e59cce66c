"""P3, P4: no two leases by contradicting views are valid at once, by true time (H-05)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol


class HeldLease(Protocol):
    """The part of a valid lease that this checker reads."""

    @property
    def node(self) -> str:
        """The name of the node that holds it."""
        ...

    @property
    def view(self) -> int:
        """The number of the view that it belongs to."""
        ...

    @property
    def since(self) -> int:
        """The number of the view in which the node entered."""
        ...

    @property
    def rows(self) -> tuple[tuple[str, int], ...]:
        """The name and `since` of each node of that view."""
        ...


def judge(held: Sequence[HeldLease]) -> Iterator[str]:
    """Every node with a valid lease must be in the newest view of all lease holders, with the same entrance."""
    if not held:
        return
    newest = max(held, key=lambda each: each.view)
    for each in held:
        if (each.node, each.since) not in newest.rows:
            yield (
                f"two leases: {each.node} holds one by view {each.view}, {newest.node} one by view {newest.view} "
                f"without it"
            )

"""Cluster time does not jump from one lease to the next (H-17)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

APART_MS = 30_000
"""Rates of clocks and suspensions explain less than this; a wall clock that a fault has set is a minute off or more."""

GAP_S = 2.0
"""If no node had a lease for longer, the next leader may have found nobody who knows cluster time."""


class Clocks:
    """Remembers the last lease that was seen."""

    def __init__(self) -> None:
        self._last: tuple[str, float, float] | None = None
        self._over = False

    def judge(self, now_s: float, leases: Mapping[str, float]) -> Iterator[str]:
        """`leases`: node -> how far the cluster time that its lease says is ahead of true time, in ms.

        After the first jump nothing is checked: nodes that were away may know the former time.
        """
        for node, ahead_ms in leases.items():
            former, self._last = self._last, (node, now_s, ahead_ms)
            if former is None or self._over:
                continue
            other, seen_s, before_ms = former
            if abs(ahead_ms - before_ms) > APART_MS:
                self._over = True
                if now_s - seen_s <= GAP_S:
                    jump_s = (ahead_ms - before_ms) / 1000
                    yield f"clock: cluster time jumps by {jump_s:+.0f} s, from the lease of {other} to that of {node}"

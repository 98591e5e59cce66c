"""Only a side with a majority of the voters serves (review, hole 21; policies off and majority, anomaly A19)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ...cluster.views.settings import Settings

LEASE_S = Settings().expiry_ms / 1000
"""No lease lasts longer by true time, for clocks differ by less than its drift."""


def reaches_majority(node: str, voters: Sequence[str], hears: Callable[[str, str], bool]) -> bool:
    """Whether a node and a majority of the voters may exchange messages; `hears(a, b)`: both ways, both running."""
    reached = sum(voter == node or hears(node, voter) for voter in voters)
    return 2 * reached > len(voters)


def judge(now_s: float, holders: Sequence[str], reached_at: Mapping[str, float]) -> Iterator[str]:
    """`reached_at`: when each node last could reach a majority. Nobody holds a lease for longer than that allows."""
    for node in holders:
        since = now_s - reached_at.get(node, now_s)
        if since > LEASE_S:
            yield f"side: {node} holds a lease, and could reach no majority of the voters for {since:.2f} s"

"""At rest no node waits for another: no copy, barrier, exchange or request to join or leave is open (H-15)."""

from __future__ import annotations

from collections.abc import Iterator

from ...broker.clustering.adapter import ClusterAdapter
from ...cluster.node import ClusterNode


def waiting(clustering: ClusterAdapter, member: ClusterNode) -> Iterator[str]:
    """Yield a phrase for each wait of a member and its broker."""
    copies = clustering.sender.copies
    if copies:
        yield f"{copies} copies of publishes without an acknowledgement"
    if member.metadata.open_barriers:
        yield f"{member.metadata.open_barriers} barriers"
    if member.metadata.exchanging:
        yield "an exchange of metadata"
    if member.join_leave.open_requests:
        yield f"{member.join_leave.open_requests} requests to join or leave"
    if member.rejoin.active:
        yield "it is still entering"

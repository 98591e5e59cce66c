"""At rest no node waits for another: no copy, barrier, exchange or request to join or leave is open (H-15).

Nor do rows of a slot that a node has no copy of wait for nothing: they are arriving or being deleted, or the node keeps
them for the next copy.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...broker.clustering.adapter import ClusterAdapter
from ...broker.node import Node
from ...broker.sessions.slot_sessions import KEPT
from ...cluster.node import ClusterNode


def waiting(node: Node, clustering: ClusterAdapter, member: ClusterNode) -> Iterator[str]:
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
    yield from _undecided(node, clustering, member)


def elsewhere(member: ClusterNode) -> set[int]:
    """Returns the slots of which this process is neither the primary nor a copy in sync, by its slot table."""
    return {row.slot for row in member.slots.rows if member.own_holder not in row.in_sync}


def _undecided(node: Node, clustering: ClusterAdapter, member: ClusterNode) -> Iterator[str]:
    """Yield a phrase for each slot that is elsewhere, and whose rows nobody fills, deletes, or has decided to keep."""
    slots, marks = clustering.slots, node.slot_sessions.marks
    busy = {*slots.copies, *slots.moves.arrivals, *(slot for slot in marks if slot in slots.opening.leftovers)}
    for slot in sorted(elsewhere(member).intersection(marks).difference(busy)):
        if marks[slot] != KEPT:
            yield f"slot {slot} is {marks[slot].decode()}, and nobody decides about its rows"

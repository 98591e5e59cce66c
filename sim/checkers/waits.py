"""At rest no node waits for another: copies, barriers, exchanges, calls, frames (H-15)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def waiting(machine: Any) -> Iterator[str]:
    """What a member and its broker still wait for; every wait has an owner, and this is the list of owners."""
    clustering, member = machine.clustering, machine.member
    copies = clustering.forwarding.copies
    if copies:
        yield f"{copies} copies of publishes that nobody has acknowledged"
    barriers = len(member.metadata._barriers)
    if barriers:
        yield f"{barriers} barriers"
    if member.metadata._anti_entropy.pending():
        yield "an exchange of metadata"
    if member.join_leave._waiting:
        yield f"{len(member.join_leave._waiting)} requests to join or leave"
    if member.rejoin.active:
        yield "it is still entering"

"""P3, one owner: a node closes a connection whose client id another connection has taken over (anomaly A10)."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from ..history import NEVER
from .case import Case

LATE_S = 10.0
"""A client connects a second time. Without faults the gateway of its first connection closes that socket within this
time, in seconds."""


def check(case: Case) -> Iterator[str]:
    """Check that a node ends a connection before it accepts a later one of the same client id.

    A gateway learns later that its connection is over: it has until the end of all faults, or `LATE_S`.
    """
    healed_at = case.history.healed_at if case.history.healed != NEVER else inf
    for connections in case.history.connections.values():
        for place, older in enumerate(connections):
            opened = [each for each in connections[place + 1 :] if each.opened != NEVER and each.node == older.node]
            over_at = older.noticed_at
            by_s = opened[0].opened_at if opened else inf
            if opened and (older.relayed or opened[0].relayed):
                by_s = max(by_s, healed_at) + LATE_S
                if by_s >= case.end_s:
                    continue
            if opened and (over_at is None or over_at > by_s):
                yield f"two owners: {older.client}, connection {older.number} goes on beside {opened[0].number}"

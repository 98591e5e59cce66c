"""P3, one owner: a node closes a connection whose client id another connection has taken over (anomaly A10)."""

from __future__ import annotations

from collections.abc import Iterator

from ..history import NEVER
from .case import Case


def check(case: Case) -> Iterator[str]:
    """Check that a node ends a connection before it accepts a later one of the same client id."""
    for connections in case.history.connections.values():
        for place, older in enumerate(connections):
            opened = [each for each in connections[place + 1 :] if each.opened != NEVER and each.node == older.node]
            over_at = older.noticed_at
            if opened and (over_at is None or over_at > opened[0].opened_at):
                yield f"two owners: {older.client}, connection {older.number} goes on beside {opened[0].number}"

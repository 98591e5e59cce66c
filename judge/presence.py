"""When clients were connected, in a log that still grows.

Whoever reads such a log has a *watermark*: all rows with smaller stamps are there. So a node that has written nothing
for a while is known up to the watermark. What is said here about a stamp below it does not change with later rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .lives import BootRows
from .rows import NEVER, Owner, Row
from .world import World


@dataclass(slots=True)
class _Connection:
    node: str
    boot: int
    opened: int
    closed: int = NEVER


class Presence:
    """The connections of all clients, by the owner of their session."""

    def __init__(self, rows: Iterable[Row], world: World) -> None:
        """Read rows in order; others than conn.open and conn.close have no effect."""
        self._world = world
        self._of: dict[Owner, list[_Connection]] = {}
        by_number: dict[tuple[str, int, int], _Connection] = {}
        for row in rows:
            key = row["node"], row["boot"], row.get("conn") or 0
            if row["type"] == "conn.open":
                by_number[key] = _Connection(key[0], key[1], row["hlc"])
                self._of.setdefault(world.owner_of(row), []).append(by_number[key])
            elif row["type"] == "conn.close" and key in by_number:
                by_number[key].closed = row["hlc"]

    def throughout(self, owner: Owner, begin: int, end: int) -> bool:
        """Whether one connection lasted from before `begin` until `end`, and its node was not lost then."""
        return any(
            each.opened < begin and end <= each.closed and self._lives(each.node, each.boot, end)
            for each in self._of.get(owner, ())
        )

    def _lives(self, node: str, boot: int, stamp: int) -> bool:
        """Whether a boot had not ended at a stamp, as far as the log and the other nodes know."""
        lives = self._world.lives
        here = lives.boots.get((node, boot))
        if here is not None and here.stopped and here.last_hlc < stamp:
            return False
        return lives.followed(node, boot) > stamp and not self._world.views.lost(node, stamp)


def known_up_to(boots: Mapping[tuple[str, int], BootRows], watermark: int) -> dict[tuple[str, int], BootRows]:
    """Returns the boots, each node's last one known up to the watermark at least, unless it was stopped."""
    newest: dict[str, int] = {}
    for node, boot in boots:
        newest[node] = max(boot, newest.get(node, boot))
    return {
        (node, boot): rows
        if rows.stopped or boot != newest[node]
        else rows._replace(last_hlc=max(rows.last_hlc, watermark))
        for (node, boot), rows in boots.items()
    }

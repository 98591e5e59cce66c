"""A view: the incarnations that are in the cluster at one moment of the Raft log (architecture 5; review, hole 1)."""

from __future__ import annotations

from msgspec import Struct

from ..identity import Incarnation
from .commands import Row


class View(Struct, array_like=True, frozen=True):
    """Rows in the order of their nodes' names. `id` rises with every change; 0 is the empty view before the first."""

    id: int = 0
    rows: tuple[Row, ...] = ()

    def row(self, node: str) -> Row | None:
        """The node's row, if it is in the view."""
        return next((row for row in self.rows if row.node == node), None)

    def incarnation(self, node: str) -> Incarnation | None:
        """Who the node is in this view."""
        row = self.row(node)
        return incarnation_of(row) if row else None

    @property
    def incarnations(self) -> tuple[Incarnation, ...]:
        """All of them, joining ones too."""
        return tuple(incarnation_of(row) for row in self.rows)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of all rows: these count in every barrier."""
        return tuple(row.node for row in self.rows)

    @property
    def serving(self) -> tuple[str, ...]:
        """The names of those that serve clients."""
        return tuple(row.node for row in self.rows if row.serving)

    def without(self, node: str) -> View:
        """The next view, in which the node has no row; this one, if it had none."""
        if self.row(node) is None:
            return self
        return View(self.id + 1, tuple(row for row in self.rows if row.node != node))

    def required(self, node: str) -> tuple[Row, ...]:
        """With whom a joining node has to complete a full exchange before it may serve (review, hole 4).

        Everybody that serves. If nobody does, as after a restart of the whole cluster, everybody in the view: what was
        acknowledged before may be known to any of them.
        """
        others = tuple(row for row in self.rows if row.node != node)
        return tuple(row for row in others if row.serving) or others


def incarnation_of(row: Row) -> Incarnation:
    """The incarnation that a row stands for."""
    return Incarnation(row.node, row.boot, row.since)

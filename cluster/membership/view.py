"""A view: the incarnations that are in the cluster at one moment of the Raft log (H-01)."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from ..identity import Incarnation
from .commands import Row


class View(Struct, array_like=True, frozen=True, dict=True):
    """Rows in the order of their nodes' names. `id` rises with every change; 0 is the empty view before the first.

    A view is asked in every turn and changes seldom: what follows from its rows is found out once.
    """

    id: int = 0
    rows: tuple[Row, ...] = ()

    def row(self, node: str) -> Row | None:
        """The node's row, if it is in the view."""
        return self._by_node.get(node)

    @cached_property
    def _by_node(self) -> dict[str, Row]:
        return {row.node: row for row in self.rows}

    def incarnation(self, node: str) -> Incarnation | None:
        """Who the node is in this view."""
        return self._incarnation_by_node.get(node)

    @cached_property
    def _incarnation_by_node(self) -> dict[str, Incarnation]:
        return {each.node: each for each in self.incarnations}

    @cached_property
    def incarnations(self) -> tuple[Incarnation, ...]:
        """All of them, joining ones too."""
        return tuple(incarnation_of(row) for row in self.rows)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The names of all rows: these count in every barrier."""
        return tuple(row.node for row in self.rows)

    @cached_property
    def serving(self) -> tuple[str, ...]:
        """The names of those that serve clients."""
        return tuple(row.node for row in self.rows if row.serving)

    def without(self, node: str) -> View:
        """The next view, in which the node has no row; this one, if it had none."""
        if self.row(node) is None:
            return self
        return View(self.id + 1, tuple(row for row in self.rows if row.node != node))

    def required(self, node: str) -> tuple[Row, ...]:
        """With whom a joining node has to complete a full exchange before it may serve (H-04).

        Everybody that serves. If nobody does, as after a restart of the whole cluster, everybody in the view: what was
        acknowledged before may be known to any of them.
        """
        others = tuple(row for row in self.rows if row.node != node)
        return tuple(row for row in others if row.serving) or others


def incarnation_of(row: Row) -> Incarnation:
    """The incarnation that a row stands for."""
    return Incarnation(row.node, row.boot, row.since)

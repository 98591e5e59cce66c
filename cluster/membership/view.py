"""A view: the incarnations that are in the cluster at one moment of the Raft log (H-01)."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from ..identity import Incarnation
from .commands import Row


class View(Struct, array_like=True, frozen=True, dict=True):
    """Rows in the order of their nodes' names. `id` rises with every change; 0 is the empty view before the first.

    A view is read in every turn and changes seldom, so values derived from its rows are cached.
    """

    id: int = 0
    rows: tuple[Row, ...] = ()

    def row(self, node: str) -> Row | None:
        """Returns the node's row; None if it is not in the view."""
        return self._by_node.get(node)

    @cached_property
    def _by_node(self) -> dict[str, Row]:
        return {row.node: row for row in self.rows}

    def incarnation(self, node: str) -> Incarnation | None:
        """Returns the node's incarnation in this view; None if it has none."""
        return self._incarnation_by_node.get(node)

    @cached_property
    def _incarnation_by_node(self) -> dict[str, Incarnation]:
        return {each.node: each for each in self.incarnations}

    @cached_property
    def incarnations(self) -> tuple[Incarnation, ...]:
        """All incarnations, joining ones too."""
        return tuple(incarnation_of(row) for row in self.rows)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The names of all rows; each barrier waits for these."""
        return tuple(row.node for row in self.rows)

    @cached_property
    def serving(self) -> tuple[str, ...]:
        """The names of the nodes that serve clients."""
        return tuple(row.node for row in self.rows if row.serving)

    def without(self, node: str) -> View:
        """Returns the next view, without the node's row; this view if the node has no row."""
        if self.row(node) is None:
            return self
        return View(self.id + 1, tuple(row for row in self.rows if row.node != node))

    def required(self, node: str) -> tuple[Row, ...]:
        """Returns the rows with which a joining node must complete a full exchange before it may serve (H-04).

        These are all serving nodes. If no node serves, as after a restart of the whole cluster, these are all other
        nodes of the view: any of them may know an acknowledged write.
        """
        others = tuple(row for row in self.rows if row.node != node)
        return tuple(row for row in others if row.serving) or others


def incarnation_of(row: Row) -> Incarnation:
    """The incarnation of a row."""
    return Incarnation(row.node, row.boot, row.entered_in_view)

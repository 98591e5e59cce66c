"""From joining to serving: the steps of a node before it may serve clients (H-04, H-14, H-18).

    view with own row, joining
      1. cancel unacknowledged items, close the connections that cannot go on
      2. full exchange with every required node, to learn what they know
      3. announce the own routes, then a barrier, so that the others know them
      4. full exchange once more, to find messages that this node's clean sessions missed
    lease request names the completed exchanges, and at last this node -> view with own row, serving

When another incarnation replaces a required node, the exchanges with that node start again. When this node enters
another view, all steps start again. After a restart of the whole cluster no node serves, and every node of the view is
required. The first node to serve has asked all others; the others ask it once more, because it may have learned
something after their first exchange with it. If all required nodes are gone, steps 3 and 4 still have to be done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..identity import Incarnation


class RejoinListener(Protocol):
    """The part of the node that takes part in a rejoin: the broker. `entered_in_view` is the id of the view entered."""

    def rejoin(self, entered_in_view: int) -> None:
        """The node enters this view: cancel everything that was under way before."""
        ...

    def announce(self, entered_in_view: int, announced: Callable[[int], None]) -> None:
        """Write the filters for which this node has subscribers, then call `announced(counter of the last write)`."""
        ...

    def informed(self) -> None:
        """This node now knows everything that happened while it was away."""
        ...


class Rejoin:
    """The rejoin of one node; one at a time.

    `exchange(node, view, then)` and `barrier(counter, then)` are those of the replicated map. `complete(incarnation,
    since)` is called for each node with which all exchanges are complete, and at last with this node's own incarnation.
    """

    def __init__(
        self,
        listener: RejoinListener,
        exchange: Callable[[str, int, Callable[[bool], None]], None],
        barrier: Callable[[int, Callable[[bool], None]], object],
        complete: Callable[[Incarnation, int], None],
    ) -> None:
        self._listener = listener
        self._exchange = exchange
        self._barrier = barrier
        self._complete = complete
        self._entered_in_view = 0
        self._mine: Incarnation | None = None
        self._required: tuple[Incarnation, ...] = ()
        self._running: dict[Incarnation, int] = {}
        self._first: set[Incarnation] = set()
        self._second: set[Incarnation] = set()
        self._announcing = False
        self._announced = False
        self._view = 0
        self._serving = False
        self._any_serving = False

    @property
    def active(self) -> bool:
        """A rejoin has begun and is not complete."""
        return bool(self._entered_in_view) and not self._serving

    def view(
        self,
        mine: Incarnation | None,
        serving: bool,
        required: tuple[Incarnation, ...],
        view_id: int,
        any_serving: bool = True,
    ) -> None:
        """A view was applied.

        `mine`: this node's incarnation in it. `required`: the nodes to exchange with. `any_serving`: whether a node
        serves.
        """
        first, self._any_serving = any_serving and not self._any_serving, any_serving
        self._mine = mine
        self._view = view_id
        self._serving = serving
        self._required = required
        if mine is None:
            self._entered_in_view = 0
            return
        if mine.entered_in_view != self._entered_in_view:
            self._begin(mine.entered_in_view)
            if serving:  # the first of a new cluster has nobody to ask
                self._announce()
        elif first:
            self._first, self._second = set(), set()
        self.tick()

    def tick(self) -> None:
        """Start the steps that can start, and repeat those that failed."""
        if self.active:
            self._go_on()

    def _begin(self, entered_in_view: int) -> None:
        self._entered_in_view = entered_in_view
        self._running.clear()
        self._first.clear()
        self._second.clear()
        self._announcing = self._announced = False
        self._listener.rejoin(entered_in_view)

    def _go_on(self) -> None:
        waiting = [each for each in self._required if each not in self._first]
        for each in waiting:
            self._run(each, self._first)
        if waiting:
            return
        if not self._announcing:
            self._announce()
        if not self._announced:
            return
        waiting = [each for each in self._required if each not in self._second]
        for each in waiting:
            self._run(each, self._second)
        if not waiting and self._mine is not None:
            self._listener.informed()
            for each in (*self._required, self._mine):
                self._complete(each, self._entered_in_view)

    def _run(self, incarnation: Incarnation, done: set[Incarnation]) -> None:
        if incarnation in self._running:
            return
        entered_in_view = self._entered_in_view
        self._running[incarnation] = entered_in_view

        def exchanged(complete: bool) -> None:
            if self._entered_in_view != entered_in_view or self._running.pop(incarnation, None) is None:
                return
            if complete:
                done.add(incarnation)
                self.tick()

        self._exchange(incarnation.node, self._view, exchanged)

    def _announce(self) -> None:
        self._announcing = True
        entered_in_view = self._entered_in_view

        def written(counter: int) -> None:
            if self._entered_in_view == entered_in_view:
                self._barrier(counter, passed)

        def passed(complete: bool) -> None:
            if self._entered_in_view == entered_in_view and complete:
                self._announced = True
                self.tick()

        self._listener.announce(entered_in_view, written)

"""From joining to serving: the steps of a node before it may serve clients (H-04, H-14, H-18).

    view with own row, joining
      1. cancel unacknowledged forwards, close the connections that wait for them
      2. full exchange with every required node, to learn what they know
      3. announce the own routes, then a barrier, so that the others know them
      4. full exchange once more, to find messages that this node's clean sessions missed
    lease request names the completed exchanges, and at last this node -> view with own row, serving

When another incarnation replaces a required node, the exchanges with that node start again. When this node enters
another view, all steps start again. After a restart of the whole cluster no node serves, and every node of the view is
required. The first node to serve has exchanged with all others. The others exchange with it once more, because it may
have learned of writes after their first exchange with it. A node without required nodes still does steps 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..identity import Incarnation


class RejoinListener(Protocol):
    """The broker's part in a rejoin. `Rejoin` makes the calls, in this order.

    `entered_in_view` is the id of the view that the node enters. If the node enters another view meanwhile, the calls
    begin again with `rejoin`. The founder of a cluster serves at once: it gets `rejoin` and `announce` only.
    """

    def rejoin(self, entered_in_view: int) -> None:
        """The node has applied the view that it enters.

        The broker cancels all forwards that no target has acknowledged and some client would send again, and closes the
        connections that wait for them. In the first view of a process there are none.
        """
        ...

    def announce(self, entered_in_view: int, announced: Callable[[int], None]) -> None:
        """The first exchange with every required node is complete: write this node's routes into the replicated map.

        The broker calls `announced(counter)` once all are written: the counter of its last write, 0 if it wrote none.
        """
        ...

    def informed(self) -> None:
        """The second exchanges are complete: this node knows all writes that happened while it was away.

        The broker ends the clean sessions that missed a publish. Called again on each tick until the node serves.
        """
        ...


class Rejoin:
    """The rejoin of one node; one at a time.

    `exchange(node, view, then)` and `barrier(counter, then)` are methods of the replicated map. After all steps,
    `complete(incarnation, entered_in_view)` is called for each required node, and at last for this node itself.
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
        """Whether a rejoin has begun and this node does not serve yet."""
        return bool(self._entered_in_view) and not self._serving

    def view(
        self,
        mine: Incarnation | None,
        serving: bool,
        required: tuple[Incarnation, ...],
        view_id: int,
        any_serving: bool = True,
    ) -> None:
        """A view was applied: begin a rejoin if this node enters with it.

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
            if serving:  # the first node of a new cluster has no required nodes
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

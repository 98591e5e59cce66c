"""From joining to serving: what a node does before it may serve clients (H-04, H-14, H-18).

    view with own row, joining
      1. void what was not acknowledged, close what cannot go on
      2. full exchange with every required node: what they know
      3. announce the own routes, and a barrier: what they have to know
      4. full exchange once more: whether anything was published that this node's clean sessions missed
    exchanges told to the leader, and that all is done -> view with own row, serving

Every step starts again when a required node is replaced by another incarnation; a new entrance starts all. After a
restart of all nobody serves, and everybody is required: who serves first has asked them all, and is asked again by
those that had asked it before. Where those are gone that had to be asked, the rest has to be done all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..identity import Incarnation


class RejoinListener(Protocol):
    """What the rest of the node does while it enters."""

    def rejoin(self, since: int) -> None:
        """The node enters in this view: nothing that it had under way before counts any more."""
        ...

    def announce(self, since: int, announced: Callable[[int], None]) -> None:
        """Say which filters this node has subscribers for. `announced` takes the counter of the last write."""
        ...

    def informed(self) -> None:
        """Everything that happened while this node was away is known now."""
        ...


class Rejoin:
    """One node's entrances, one at a time.

    `exchange(node, view, then)` and `barrier(counter, then)` are the metadata's; `complete(incarnation, since)` is told
    with whom all is exchanged, and at last, of this node itself, that all is done.
    """

    def __init__(
        self,
        newcomer: RejoinListener,
        exchange: Callable[[str, int, Callable[[bool], None]], None],
        barrier: Callable[[int, Callable[[bool], None]], object],
        complete: Callable[[Incarnation, int], None],
    ) -> None:
        self._newcomer = newcomer
        self._exchange = exchange
        self._barrier = barrier
        self._complete = complete
        self._since = 0
        self._mine: Incarnation | None = None
        self._required: tuple[Incarnation, ...] = ()
        self._running: dict[Incarnation, int] = {}
        self._first: set[Incarnation] = set()
        self._second: set[Incarnation] = set()
        self._announcing = False
        self._announced = False
        self._view = 0
        self._serving = False
        self._anybody = False

    @property
    def active(self) -> bool:
        """An entrance has begun and is not over."""
        return bool(self._since) and not self._serving

    def view(
        self,
        mine: Incarnation | None,
        serving: bool,
        required: tuple[Incarnation, ...],
        view_id: int,
        anybody: bool = True,
    ) -> None:
        """A view was applied: who this node is in it, with whom it has to exchange, and whether anybody serves."""
        first, self._anybody = anybody and not self._anybody, anybody
        self._mine = mine
        self._view = view_id
        self._serving = serving
        self._required = required
        if mine is None:
            self._since = 0
            return
        if mine.since != self._since:
            self._begin(mine.since)
            if serving:  # the first of a new cluster has nobody to ask
                self._announce()
        elif first:
            self._first, self._second = set(), set()
        self.tick()

    def tick(self) -> None:
        """Start what can be started, and again what failed."""
        if self.active:
            self._go_on()

    def _begin(self, since: int) -> None:
        self._since = since
        self._running.clear()
        self._first.clear()
        self._second.clear()
        self._announcing = self._announced = False
        self._newcomer.rejoin(since)

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
            self._newcomer.informed()
            for each in (*self._required, self._mine):
                self._complete(each, self._since)

    def _run(self, incarnation: Incarnation, done: set[Incarnation]) -> None:
        if incarnation in self._running:
            return
        since = self._since
        self._running[incarnation] = since

        def exchanged(complete: bool) -> None:
            if self._since != since or self._running.pop(incarnation, None) is None:
                return
            if complete:
                done.add(incarnation)
                self.tick()

        self._exchange(incarnation.node, self._view, exchanged)

    def _announce(self) -> None:
        self._announcing = True
        since = self._since

        def written(counter: int) -> None:
            if self._since == since:
                self._barrier(counter, passed)

        def passed(complete: bool) -> None:
            if self._since == since and complete:
                self._announced = True
                self.tick()

        self._newcomer.announce(since, written)

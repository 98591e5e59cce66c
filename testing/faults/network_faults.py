"""Faults of the links between the nodes of a cluster under test: cuts in one or both directions, paused nodes.

A cut behaves as with TCP. Sent data waits, and arrives late if the cut heals in time. After `notice_s` seconds both
ends of every stream across the cut are closed. A dial or a call into a cut, in either direction, gets no answer. This
module does not know the transport, so a cut is the same over memory and over gRPC (`faulty_transport.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from ...cluster.transport.wire import DIAL_S, NOTICE_S
from .packet_drops import FaultError

NodePair = tuple[int, int]
"""The numbers of a source node and a target node."""


def sides_of(sides: Iterable[Iterable[int]], count: int) -> list[list[int]]:
    """Returns the sides of a partition of `count` nodes, with a side of its own for each node that is on none.

    Raises `FaultError` if a node is on two sides.
    """
    groups = [sorted(set(side)) for side in sides]
    named = [number for group in groups for number in group]
    if len(named) != len(set(named)):
        raise FaultError(f"partition {groups}: a node is on one side only")
    return [*groups, *([number] for number in range(count) if number not in named)]


class StreamEnd(Protocol):
    """One end of a stream. `nodes`: the node of this end and of the other end (None: outside of this cluster)."""

    nodes: tuple[int, int | None]

    def healed(self) -> None:
        """The cut is over: send the data that waits."""

    def broken(self, reason: str) -> None:
        """The transport has noticed the cut: close the stream, and tell its owner."""


class NetworkFaults:
    """All faults between the nodes of a cluster. Times in seconds, divided by `pace`. Belongs to the running loop."""

    def __init__(self, pace: float = 1.0) -> None:
        self.notice_s = NOTICE_S / pace
        self.dial_s = DIAL_S / pace
        self.paused: dict[int, None] = {}
        """Paused nodes: their operating system takes data, and no process answers."""
        self.addresses: dict[str, int] = {}
        """Address -> number of the node that listens there."""
        self.ends: dict[StreamEnd, None] = {}
        self._cuts: dict[NodePair, asyncio.TimerHandle] = {}

    def cut(self, source: int, target: int) -> None:
        """Cut the direction from `source` to `target`; no effect if it is cut already."""
        if (source, target) not in self._cuts:
            loop = asyncio.get_running_loop()
            self._cuts[source, target] = loop.call_later(self.notice_s, self._notice, source, target)

    def _notice(self, source: int, target: int) -> None:
        for end in list(self.ends):
            if set(end.nodes) == {source, target}:
                end.broken("the peer does not answer")

    def partition(self, groups: list[list[int]]) -> list[NodePair]:
        """Cut all links between groups in both directions. Returns the pairs of nodes, each once."""
        pairs = [
            (one, other)
            for place, group in enumerate(groups)
            for one in group
            for rest in groups[place + 1 :]
            for other in rest
        ]
        for one, other in pairs:
            self.cut(one, other)
            self.cut(other, one)
        return pairs

    def heal(self) -> list[NodePair]:
        """End all cuts, and return them."""
        ways = list(self._cuts)
        for timer in self._cuts.values():
            timer.cancel()
        self._cuts.clear()
        for end in list(self.ends):
            end.healed()
        return ways

    def is_cut(self, source: int, target: int | None) -> bool:
        """Whether the direction from `source` to `target` is cut."""
        return (source, target) in self._cuts

    def severed(self, one: int, other: int) -> bool:
        """Whether the link of two nodes is cut in either direction."""
        return self.is_cut(one, other) or self.is_cut(other, one)

    def answers(self, me: int, peer: int | None) -> bool:
        """Whether `peer` answers a dial or a call of `me`. None, a node outside of the cluster, does."""
        return peer is None or not (self.severed(me, peer) or peer in self.paused)

    def reached(self, me: int, others: Iterable[int]) -> list[int]:
        """Returns the nodes of `others` that are not paused and not behind a cut."""
        return [other for other in others if other != me and self.answers(me, other)]

"""Barriers: a write is complete when every node of the applied view has acknowledged it (H-04).

Acknowledgements are cumulative: the state is one counter for each peer, and a barrier completes when the smallest has
reached it. The peers are those of the applied view. A new view without a dead node completes the barriers that waited
for it. Acknowledgements of an earlier boot of a node do not count for its present boot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

Then = Callable[[bool], None]


class Barriers:
    """Waits for peers to acknowledge this node's own counters."""

    def __init__(self) -> None:
        self._peers: dict[str, int] = {}
        self._acked: dict[str, tuple[int, int]] = {}
        self._waiting: list[tuple[int, int]] = []
        self._then: dict[int, Then] = {}
        self._handle = 0
        self._held = False
        self.known = 0
        """All peers of some time had the writes up to this counter: a barrier up to it may be complete."""

    def __len__(self) -> int:
        return len(self._then)

    def wait(self, counter: int, then: Then) -> int:
        """Call `then(True)` once all peers have everything up to `counter`, perhaps at once. Returns a handle."""
        self._handle += 1
        if counter <= self.reached():
            then(True)
        else:
            self._then[self._handle] = then
            heappush(self._waiting, (counter, self._handle))
        return self._handle

    def cancel(self, handle: int) -> bool:
        """Remove a barrier: its `then` is not called. Returns whether it was still waiting."""
        return self._then.pop(handle, None) is not None

    def acked(self, peer: str, boot: int, counter: int) -> None:
        """This boot of a peer has acknowledged all writes of this node up to `counter` (`Ack`)."""
        known = self._acked.get(peer, (0, 0))
        if (boot, counter) > known:
            self._acked[peer] = (boot, counter)
            self._release()

    def set_peers(self, peers: Iterable[tuple[str, int]]) -> None:
        """Set the peers, as (node, boot), to wait for from now on."""
        self._peers = dict(peers)
        self._release()

    def hold(self, held: bool) -> None:
        """While held, no barrier completes: an absent node still counts as informed (`MembershipState`)."""
        if held != self._held:
            self._held = held
            self._release()

    def reached(self) -> int:
        """Returns the counter up to which all peers have acknowledged; without peers a number above all counters."""
        if self._held:
            return 0
        return min((self.counter_of(peer) for peer in self._peers), default=1 << 62)

    def counter_of(self, peer: str) -> int:
        """Returns the counter that the present boot of a peer has acknowledged."""
        boot, counter = self._acked.get(peer, (0, 0))
        return counter if boot == self._peers.get(peer) else 0

    def _release(self) -> None:
        reached = self.reached()
        if self._peers:
            self.known = max(self.known, reached)
        while self._waiting and self._waiting[0][0] <= reached:
            _, handle = heappop(self._waiting)
            then = self._then.pop(handle, None)
            if then is not None:
                then(True)
                reached = self.reached()

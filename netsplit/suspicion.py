"""Tracks when each peer was last heard, from its streams and its answers to lease requests, and suspects silent peers.

A suspicion has no effect on the cluster: only the Raft leader changes views, on leases (H-06). It informs
operators and the log of incidents, which needs the time of the last contact. It comes after one second, well before
a view can change (detection takes 2 s).

Times are cluster time in ms. If that is set back, peers were heard now at the latest (H-17). After a pause of this node
itself (a suspended process, or a blocked event loop) all peers seem silent: they get the full limit again, counted from
the first call afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

HEARTBEAT_MS = 250
"""Interval of frames on an idle stream."""

MISSES = 4
"""Heartbeats that may be missing in a row; 4 = one second, less than half of the detection time."""

SILENT = "silent"
"""The reason of a suspicion while the link is up."""


class Suspicion(NamedTuple):
    """A peer that is silent for longer than the limit, since `since_ms`; `why` is `silent` or how its link ended."""

    peer: str
    since_ms: int
    why: str


class Return(NamedTuple):
    """The return of a suspected peer, after a silence that began at `since_ms` and took `silent_ms`."""

    peer: str
    since_ms: int
    silent_ms: int


class _Peer:
    __slots__ = ("down", "heard_at", "suspected_since")

    def __init__(self, now: int) -> None:
        self.heard_at = now
        self.down = ""
        self.suspected_since = -1


class SuspicionTracker:
    """The suspicions about all peers. The limit is `heartbeat_ms * misses`."""

    def __init__(self, heartbeat_ms: int = HEARTBEAT_MS, misses: int = MISSES) -> None:
        assert heartbeat_ms > 0 and misses > 0, (heartbeat_ms, misses)
        self.limit_ms = heartbeat_ms * misses
        self._peers: dict[str, _Peer] = {}
        self._returned: list[Return] = []
        self._asked_at = -1
        self._awake_since = -1
        self._absent_since = -1

    def watch(self, peers: Iterable[str], now: int) -> None:
        """Set the peers. A new peer counts as heard now. Peers that are not in the set are forgotten."""
        if now < self._asked_at:  # cluster time was set back
            self._asked_at = now
            for known in self._peers.values():
                known.heard_at = min(known.heard_at, now)
        self._peers = {peer: self._peers.get(peer) or _Peer(now) for peer in peers}

    def heard(self, peer: str, now: int) -> None:
        """Note that a frame, of any content, arrived from the peer: its link is up."""
        known = self._peers.get(peer)
        if known is None:
            return
        if known.suspected_since >= 0:
            self._returned.append(Return(peer, known.heard_at, max(0, now - known.heard_at)))
            known.suspected_since = -1
        known.heard_at = max(known.heard_at, now)
        known.down = ""

    def lost(self, peer: str, reason: str, now: int) -> None:
        """Note that the link to the peer ended; `reason` is a phrase. The silence began at the last frame, not now."""
        known = self._peers.get(peer)
        if known is not None:
            known.down = reason or "link down"

    def suspect(self, now: int) -> tuple[Suspicion, ...]:
        """Returns the peers that are silent for longer than the limit, the longest silence first, then by name.

        Call it at least once within the limit; a longer gap between two calls counts as a pause of this node.
        """
        if 0 <= self._asked_at < now - self.limit_ms:
            self._awake_since, self._absent_since = now, self._asked_at
        self._asked_at = max(self._asked_at, now)
        found = []
        for peer, known in self._peers.items():
            if known.suspected_since < 0 and now - max(known.heard_at, self._awake_since) > self.limit_ms:
                known.suspected_since = now
            if known.suspected_since >= 0:
                found.append(Suspicion(peer, known.heard_at, known.down or SILENT))
        return tuple(sorted(found, key=lambda each: (each.since_ms, each.peer)))

    def absent_since(self, now: int) -> int | None:
        """Returns the begin, in ms, of a pause of this node that has just ended; None without a pause."""
        if self._awake_since < 0 or now - self._awake_since > self.limit_ms:
            return None
        return self._absent_since

    def returned(self, now: int) -> tuple[Return, ...]:
        """Returns the suspected peers that returned since the last call, up to `now`, in the order of their return."""
        returned, self._returned = self._returned, []
        return tuple(each for each in returned if each.peer in self._peers and each.since_ms <= now)

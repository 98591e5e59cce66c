"""The log of incidents: how long this node did not know that it was cut off, and what it accepted meanwhile (P10).

    calm --suspected--> suspected --returned--> calm
      |                     |
      +------- view --------+--view: someone missing, or no lease--> open --healed--> calm

An incident *begins* at the last contact with the first missing member, or at the loss of the lease of this node. If
the node lost its lease while it was paused, the incident begins with that pause. The incident is *detected* at the
first of two events: a view without the member, or the loss of the lease. It is *healed* when the node is whole again
and has merged. The Window of Uncertainty is the time from begin to detection: in it the node accepted operations that
its policy may forbid. Each node has its own incidents; the event log of all nodes shows the whole. The id of an
incident is the number of the last view in which a node had a lease and no member was missing. It is the same at all
nodes, unless a node was cut off before it knew of that view.

Times are cluster time in ms. Counting costs one addition; callers may check `active` first, which is False in calm.
`partition_monitor.py` adds the operations since the begin, from counters that the broker has anyway.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from .policy import OPERATIONS, ViewState

Emit = Callable[[str, dict[str, Any]], None]
"""Takes the type of an event of `analytics/schema.py` and its fields."""

OUTCOMES = ("accepted", "refused", "parked", "voided", "merged")
"""The outcome of an operation. *voided*: accepted, never acknowledged, and given up when the node entered the view
again. *merged*: accepted without a lease, and reconciled at heal."""

METRICS = {
    "netsplit_detected": ("counter", "Incidents that this node detected."),
    "netsplit_resolved": ("counter", "Incidents that healed."),
    "netsplit_suspected": ("counter", "Suspicions of silent members, with or without an incident."),
    "netsplit_passed": ("counter", "Suspicions that ended without an incident."),
    "netsplit_open": ("gauge", "1 while an incident is open."),
    "netsplit_last_window_ms": ("gauge", "Window of Uncertainty of the last incident, in ms."),
    "netsplit_longest_window_ms": ("gauge", "Longest Window of Uncertainty since the start, in ms."),
}
"""Metric -> kind and help, in the order of `IncidentLog.metrics`."""

KEEP = 100
"""Number of incidents that are kept."""

START_MS = 5000
"""A node that starts may lack its first lease for this time without an incident: the longest failover (4.5 s) and a
reserve."""


class Incident(msgspec.Struct):
    """One incident of this node. `healed_ms` is 0 while it is open.

    `window_ms` is the Window of Uncertainty, begin to detection; `split_ms` is the time from detection to heal, 0 while
    open. `view` is the view at detection. `state` is majority or minority at detection; `worst` is minority if the node
    had no lease at any time. `incident` is the id that all nodes have for it. `uncertain` counts the operations in the
    window, `counts` all operations, by names such as `publish_refused`.
    """

    number: int
    begin_ms: int
    detected_ms: int
    state: str
    worst: str
    peers: tuple[str, ...]
    view: int
    incident: int
    uncertain: dict[str, int]
    counts: dict[str, int] = {}
    healed_ms: int = 0

    @property
    def window_ms(self) -> int:
        """The Window of Uncertainty."""
        return self.detected_ms - self.begin_ms

    @property
    def split_ms(self) -> int:
        """The time from detection to heal, 0 while open."""
        return self.healed_ms - self.detected_ms if self.healed_ms else 0


class _Seen(NamedTuple):
    """What the node sees of the cluster: the missing members, how much, and the number of the view. Without an open
    incident this view is whole."""

    missing: tuple[str, ...]
    state: ViewState
    view: int


class IncidentLog:
    """The incidents of one node. `now_ms` is the time at its start."""

    def __init__(self, node: str, emit: Emit, now_ms: int) -> None:
        self.node = node
        self.active = False
        """Whether to count operations: an incident is open or suspected. A plain attribute for hot paths."""
        self.open: Incident | None = None
        self._emit = emit
        self._started = now_ms
        self._entered = False
        self._suspects: dict[str, int] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._seen = _Seen((), ViewState.WHOLE, 0)
        self._kept: deque[Incident] = deque(maxlen=KEEP)
        self.detected = 0
        self.resolved = 0
        self.suspicions = 0
        self.passed = 0
        self.last_window_ms = 0
        self.longest_window_ms = 0
        self._reset()

    def _reset(self) -> None:
        self._counts = {(operation, outcome): 0 for operation in OPERATIONS for outcome in OUTCOMES}
        self.active = self.open is not None or bool(self._suspects)

    # -- events

    def suspected(self, peer: str, last_heard_ms: int, now: int) -> None:
        """Note that the peer has been silent since `last_heard_ms`. Repeated calls count once. A suspicion alone is no
        incident."""
        if peer in self._suspects or (self.open is not None and peer in self.open.peers):
            return
        begin = min(last_heard_ms, now)
        self._suspects[peer] = begin
        self.suspicions += 1
        self.active = True
        facts = {"nodes": [peer], "incident": self._incident, "begin_ms": begin, "window_ms": now - begin}
        self._emit("split.suspect", facts)
        if self.open is not None and self._seen.state is ViewState.MINORITY:
            self._take_in(self.open)

    def returned(self, peer: str, now: int) -> None:
        """Note that the node heard the peer again. End a suspicion without incident, and count it."""
        begin = self._suspects.pop(peer, None)
        if begin is None:
            return
        self.passed += 1
        facts = {"nodes": [peer], "incident": self._incident, "begin_ms": begin, "window_ms": now - begin}
        self._emit("split.pass", facts)
        if self.open is None and not self._suspects:
            self._reset()

    def view(
        self, missing: tuple[str, ...], view_id: int, leased: bool, now: int, absent_since: int | None = None
    ) -> None:
        """Update the members that are missing from the view, and whether the node has a lease.

        Call it at every change of either; more calls do no harm. A whole view does not heal an incident; `healed` does.
        While a node starts (`START_MS`), the lack of its first lease is not an incident. `absent_since`: this node
        was paused from that time until now.
        """
        self._entered = self._entered or leased
        if not self._entered and now - self._started < START_MS:
            return
        missing = tuple(sorted(missing))
        state = ViewState.WHOLE if leased and not missing else ViewState.MAJORITY if leased else ViewState.MINORITY
        if self.open is None:
            if state is not ViewState.WHOLE:
                self._detect(missing, view_id, state, now, absent_since)
        elif (missing, state) != self._seen[:2]:
            self._change(self.open, missing, view_id, state)
        self._seen = _Seen(missing, state, view_id)

    def count(self, operation: str, outcome: str, number: int = 1) -> None:
        """Count an operation with this outcome. No effect in calm. KeyError for an unknown operation or outcome."""
        if self.active:
            self._counts[operation, outcome] += number

    def healed(self, now: int) -> None:
        """End the incident, because the node has merged. No effect without an incident, or if the node is not whole."""
        incident = self.open
        if incident is None or self._seen.state is not ViewState.WHOLE:
            return
        incident.healed_ms = max(now, incident.detected_ms)
        incident.counts = self._counted()
        self.open = None
        self.resolved += 1
        self._emit(
            "split.heal",
            {
                "nodes": list(incident.peers),
                "incident": incident.incident,
                "state": incident.worst,
                "view": incident.view,
                "begin_ms": incident.begin_ms,
                "detected_ms": incident.detected_ms,
                "healed_ms": incident.healed_ms,
                "window_ms": incident.window_ms,
                "split_ms": incident.split_ms,
                "counts": incident.counts,
            },
        )
        self._reset()

    # -- state

    @property
    def begin_ms(self) -> int | None:
        """The begin of the open incident or of the first suspicion, in ms; None in calm."""
        if self.open is not None:
            return self.open.begin_ms
        return min(self._suspects.values(), default=None)

    def rows(self) -> list[dict[str, Any]]:
        """The last incidents, oldest first, the open one last: plain data for `vmq-admin` and the HTTP API.

        `healed_ms` and `split_ms` of the open incident are None, and its counts are those up to now.
        """
        found = []
        for incident in self._kept:
            row: dict[str, Any] = msgspec.structs.asdict(incident)
            is_open = incident is self.open
            row["peers"] = list(incident.peers)
            row["counts"] = self._counted() if is_open else incident.counts
            row["healed_ms"] = None if is_open else incident.healed_ms
            row["window_ms"] = incident.window_ms
            row["split_ms"] = None if is_open else incident.split_ms
            found.append({"node": self.node, **row})
        return found

    def metrics(self) -> dict[str, int]:
        """The values of `METRICS`, counters since the start."""
        return {
            "netsplit_detected": self.detected,
            "netsplit_resolved": self.resolved,
            "netsplit_suspected": self.suspicions,
            "netsplit_passed": self.passed,
            "netsplit_open": int(self.open is not None),
            "netsplit_last_window_ms": self.last_window_ms,
            "netsplit_longest_window_ms": self.longest_window_ms,
        }

    # -- internal

    @property
    def _incident(self) -> int:
        return self.open.incident if self.open is not None else self._seen.view

    def _detect(
        self, missing: tuple[str, ...], view_id: int, state: ViewState, now: int, absent_since: int | None
    ) -> None:
        # without a lease the view of this node is old and has all members: use the silent members instead
        cut_off = state is ViewState.MINORITY
        silent = {peer: since for peer, since in self._suspects.items() if cut_off or peer in missing}
        peers = tuple(sorted({*missing, *silent}))
        begin = min([now, *silent.values()])
        if cut_off and absent_since is not None:
            begin = min(begin, absent_since)  # a paused node hears no member
        counted = self._counted()
        self.detected += 1
        seen, incident_id = state.value, self._incident
        incident = Incident(self.detected, begin, now, seen, seen, peers, view_id, incident_id, counted)
        self.open = incident
        self.active = True
        self._kept.append(incident)
        self.last_window_ms = incident.window_ms
        self.longest_window_ms = max(self.longest_window_ms, incident.window_ms)
        for peer in silent:
            del self._suspects[peer]
        self._emit(
            "split.detect",
            {
                "nodes": list(peers),
                "incident": incident.incident,
                "state": state.value,
                "view": view_id,
                "begin_ms": begin,
                "detected_ms": now,
                "window_ms": incident.window_ms,
                "counts": counted,
            },
        )

    def _change(self, incident: Incident, missing: tuple[str, ...], view_id: int, state: ViewState) -> None:
        incident.peers = tuple(sorted({*incident.peers, *missing}))
        gone = set(missing)
        if state is ViewState.MINORITY:
            incident.worst = state.value
            gone |= self._suspects.keys()
            self._take_in(incident)
        for peer in missing:
            self._suspects.pop(peer, None)
        facts = {"nodes": sorted(gone), "incident": incident.incident, "state": state.value, "view": view_id}
        self._emit("split.change", facts)

    def _take_in(self, incident: Incident) -> None:
        """Add the silent members to the missing ones, because a node without a lease gets no new view."""
        incident.peers = tuple(sorted({*incident.peers, *self._suspects}))
        self._suspects.clear()

    def _counted(self) -> dict[str, int]:
        return {f"{operation}_{outcome}": n for (operation, outcome), n in self._counts.items() if n}

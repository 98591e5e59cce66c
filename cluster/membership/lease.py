"""A node's own lease: how long it may act on its view (H-05, H-06).

    request --sent, the lease begins--> reply --lease_ms after the request was sent--> over

The event loop makes a request only after the store has completed a commit since the last one. The request names the
peers heard on data streams. So a stuck loop, a hung disk and a partial cut all end the lease. Nothing here waits: the
caller checks `valid` after it has read the data that it acts on.
"""

from __future__ import annotations

from math import inf

from msgspec import Struct

from ..identity import Incarnation
from .messages import LeaseReply, LeaseRequest
from .settings import Settings
from .view import View


class _Moment(Struct, frozen=True):
    """One moment on both clocks of the machine, in milliseconds."""

    mono_ms: float
    wall_ms: float


class LeaseHolder:
    """One process's lease. `now_ms` is its monotonic clock, `wall_ms` its wall clock, in milliseconds, everywhere.

    `offset_ms`: the leader's cluster time minus this process's monotonic clock, as the last lease says (H-17).
    """

    def __init__(self, node: str, boot: int, process: str, settings: Settings | None = None) -> None:
        self.node = node
        self.boot = boot
        self.process = process
        self.settings = settings or Settings()
        self.view = View()
        self.offset_ms = 0.0
        self._reply: LeaseReply | None = None
        self._number = 0
        self._asked: dict[int, _Moment] = {}
        self._begun: _Moment | None = None
        self._last: _Moment | None = None
        self._next_ms: float | None = None
        self._committed = False
        self._heard: dict[str, float] = {}
        self._exchanged: dict[str, int] = {}
        self.given_back = False

    # -- what happened here

    def turn(self, now_ms: float, wall_ms: float) -> None:
        """Compare the two clocks. If they diverged since the last call, the machine stood still: the lease is lost.

        Only a lease requested from now on is valid. A step of the wall clock looks the same and costs one request.
        """
        parted = self._parted(now_ms, wall_ms)
        self._last = _Moment(now_ms, wall_ms)
        if parted:
            self._lose()
            self._asked.clear()
            self._next_ms = None

    def committed(self) -> None:
        """The store has completed a commit."""
        self._committed = True

    def heard(self, peer: str, now_ms: float) -> None:
        """A frame arrived on the stream from a peer. If the peer was silent before, the next request is due at once:
        the peer may complete a clique."""
        if now_ms - self._heard.get(peer, -inf) > self.settings.hearing_ms:
            self._next_ms = None
        self._heard[peer] = now_ms

    def give_back(self) -> None:
        """This process stops: it holds no lease from now on and asks for none."""
        self.given_back = True
        self._lose()
        self._asked.clear()

    def applied(self, view: View) -> None:
        """A view was applied. A lease of an incarnation that is not in it ends.

        A node outside the view reports the new view at once, because the leader adds only nodes that have applied it.
        When the first node begins to serve, earlier exchanges are forgotten: that node may have learned writes from the
        last node to enter, and has to be asked again.
        """
        before, former, self.view = self.incarnation, self.view, view
        if self.incarnation != before:
            self._lose()
        if self.incarnation != before or (view.serving and not former.serving):
            self._exchanged.clear()
        if self.incarnation is None or self.incarnation != before:
            self._next_ms = None

    def exchanged(self, incarnation: Incarnation, entered_in_view: int) -> None:
        """A full exchange is complete with a peer that had applied view `entered_in_view`, the view that this node
        entered."""
        mine = self.incarnation
        if mine and mine.entered_in_view == entered_in_view:
            self._exchanged[incarnation.node] = incarnation.entered_in_view
            if not self.wants_exchange:
                self._next_ms = None

    # -- who this is

    @property
    def incarnation(self) -> Incarnation | None:
        """This process in the applied view; None if the view lacks it or has an earlier start of the node."""
        found = self.view.incarnation(self.node)
        return found if found and found.boot == self.boot else None

    @property
    def serving(self) -> bool:
        """True if the applied view lets this process serve. It also needs a valid lease."""
        row = self.view.row(self.node)
        return row is not None and row.boot == self.boot and row.serving

    @property
    def wants_exchange(self) -> tuple[Incarnation, ...]:
        """While joining: the incarnations with which a full exchange is still to be done, by the applied view
        (H-04)."""
        if self.incarnation is None or self.serving:
            return ()
        required = self.view.required(self.node)
        return tuple(
            Incarnation(row.node, row.boot, row.entered_in_view)
            for row in required
            if self._exchanged.get(row.node) != row.entered_in_view
        )

    # -- asking

    def due_ms(self, now_ms: float, piggyback: bool = False) -> float:
        """When the next request may leave, if the store has committed by then; `now_ms` if it may now.

        With `piggyback` the request shares a frame and may leave earlier.
        """
        if self._next_ms is None:
            return now_ms
        settings = self.settings
        return max(now_ms, self._next_ms - (settings.heartbeat_ms - settings.piggyback_ms if piggyback else 0))

    def wants_commit(self, now_ms: float) -> bool:
        """True if the next request still needs a commit of the store: then the caller commits an empty batch.

        The request is due within a heartbeat, so this is True from the moment when the previous request has left.
        """
        return not self._committed and self.due_ms(now_ms, piggyback=True) <= now_ms + self.settings.heartbeat_ms

    def request(
        self,
        now_ms: float,
        wall_ms: float,
        full: bool = False,
        piggyback: bool = False,
        slow_ms: int = 0,
        cluster_ms: int | None = None,
    ) -> LeaseRequest | None:
        """Returns the next request, which the caller sends to the leader at once; None if none is due.

        A request is due each heartbeat, or earlier if a frame leaves for the leader anyway (`piggyback`). It is due at
        once when this node entered a view, completed its exchanges or stood still, when it hears a peer again, and when
        it is outside the view and a new view was applied.
        """
        self.turn(now_ms, wall_ms)
        if not self._committed or self.due_ms(now_ms, piggyback) > now_ms or self.given_back:
            return None
        urgent = self._next_ms is None or self._left_ms(now_ms, wall_ms) < self.settings.lease_ms / 2
        self._committed = False
        self._next_ms = now_ms + self.settings.heartbeat_ms
        self._number += 1
        self._asked = {n: at for n, at in self._asked.items() if now_ms - at.mono_ms < self.settings.lease_ms}
        self._asked[self._number] = _Moment(now_ms, wall_ms)
        mine = self.incarnation
        return LeaseRequest(
            self.node,
            self.boot,
            self.process,
            self._number,
            self.hears(now_ms),
            self.view.id,
            mine.entered_in_view if mine else 0,
            () if self.serving else tuple(sorted(self._exchanged.items())),
            full,
            urgent,
            slow_ms,
            cluster_ms,
        )

    def hears(self, now_ms: float) -> tuple[str, ...]:
        """The peers heard within the last four heartbeats, sorted."""
        oldest = now_ms - self.settings.hearing_ms
        return tuple(sorted(peer for peer, at in self._heard.items() if at >= oldest))

    def reply(self, reply: LeaseReply, now_ms: float) -> bool:
        """The leader has granted a lease; it began when its request was sent. Returns False if it is not for this
        incarnation."""
        asked = self._asked.get(reply.number)
        mine = self.incarnation
        if asked is None or mine is None or (reply.node, reply.process) != (self.node, self.process):
            return False
        if (reply.boot, reply.entered_in_view) != (mine.boot, mine.entered_in_view):
            return False
        self._asked = {number: at for number, at in self._asked.items() if number > reply.number}
        self._begun = asked
        # Request and reply are assumed to take the same time; the leader held the request in between.
        self.offset_ms = reply.cluster_ms - (asked.mono_ms + now_ms + reply.held_ms) / 2
        self._reply = reply
        return True

    @property
    def full(self) -> tuple[str, ...]:
        """The nodes whose disk is full, by the leader's last reply (H-20)."""
        return () if self._reply is None else self._reply.full

    @property
    def slow(self) -> dict[str, int]:
        """Node -> the time of a slow commit in ms, for the nodes whose disk is slow, by the leader's last reply."""
        return {} if self._reply is None else dict(self._reply.slow)

    # -- acting

    def valid(self, now_ms: float, wall_ms: float) -> bool:
        """True if this process holds a lease now. Call it after reading the data to act on, and before acting
        (H-04)."""
        self.turn(now_ms, wall_ms)
        return self._left_ms(now_ms, wall_ms) > 0

    def left_ms(self, now_ms: float, wall_ms: float) -> float:
        """The rest of the lease, in ms, by the same rule as `valid`; for callers that acknowledge nothing."""
        return 0.0 if self._parted(now_ms, wall_ms) else self._left_ms(now_ms, wall_ms)

    def _left_ms(self, now_ms: float, wall_ms: float) -> float:
        # Use the clock that advanced further: a monotonic clock stops in a suspended virtual machine.
        if self._begun is None:
            return 0.0
        passed = max(now_ms - self._begun.mono_ms, wall_ms - self._begun.wall_ms)
        return max(0.0, self.settings.lease_ms - passed)

    def _parted(self, now_ms: float, wall_ms: float) -> bool:
        """Whether the two clocks diverged since the last turn."""
        last = self._last
        if last is None:
            return False
        return abs((wall_ms - last.wall_ms) - (now_ms - last.mono_ms)) > self.settings.parting_ms

    def _lose(self) -> None:
        self._begun = None

"""Each node's side of its lease: what it may still promise on the strength of its view (H-05, H-06).

    request --sent, the lease begins--> reply --lease_ms after the request was sent--> over

A request is made by the event loop, only after the store has completed a commit since the last one, and it names the
peers heard on data streams: so a stuck loop, a hung disk and a partial cut all become a lease that ends. Nothing here
waits; who acts on the lease asks `valid` at that moment, after it has read what it acts on.
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

    `offset_ms`: the leader's cluster time minus this process's monotonic clock, None while no lease came (H-17).
    `full`: nodes whose disk is full, as the leader last said (H-20).
    """

    def __init__(self, node: str, boot: int, process: str, settings: Settings | None = None) -> None:
        self.node = node
        self.boot = boot
        self.process = process
        self.settings = settings or Settings()
        self.view = View()
        self.offset_ms: float | None = None
        self.full: tuple[str, ...] = ()
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
        """A turn of the loop. If the clocks parted since the last one, the machine stood still: the lease is lost.

        Only a lease asked for from now on counts again. A step of the wall clock looks the same and costs one request.
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
        """A frame came on the data stream from a peer. One that was not heard before may complete a clique."""
        if now_ms - self._heard.get(peer, -inf) > self.settings.hearing_ms:
            self._next_ms = None
        self._heard[peer] = now_ms

    def give_back(self) -> None:
        """This process stops: it holds no lease from now on, and asks for none."""
        self.given_back = True
        self._lose()
        self._asked.clear()

    def lost(self, peer: str) -> None:
        """The data stream from a peer is closed: it is not heard until a frame comes on another."""
        self._heard.pop(peer, None)

    def applied(self, view: View) -> None:
        """A view was applied. A lease of another incarnation than the one in it ends.

        The leader lets in who knows the present view: a node outside of it says so at once.
        While nobody served, exchanges were with nodes that did not know yet what the last one to come knows: who
        serves first does, and is asked again.
        """
        before, former, self.view = self.incarnation, self.view, view
        if self.incarnation != before:
            self._lose()
        if self.incarnation != before or (view.serving and not former.serving):
            self._exchanged.clear()
        if self.incarnation is None or self.incarnation != before:
            self._next_ms = None

    def exchanged(self, incarnation: Incarnation, since: int) -> None:
        """A full exchange is complete with a peer that had applied view `since`, in which this node entered."""
        mine = self.incarnation
        if mine and mine.since == since:
            self._exchanged[incarnation.node] = incarnation.since
            if not self.wants_exchange:
                self._next_ms = None

    # -- who this is

    @property
    def incarnation(self) -> Incarnation | None:
        """This process in the view it has applied; None if it is not in it, or a former start of the node is."""
        found = self.view.incarnation(self.node)
        return found if found and found.boot == self.boot else None

    @property
    def serving(self) -> bool:
        """True if the applied view lets this process serve. It also needs a valid lease."""
        row = self.view.row(self.node)
        return row is not None and row.boot == self.boot and row.serving

    @property
    def wants_exchange(self) -> tuple[Incarnation, ...]:
        """While it is joining: with whom a full exchange is still to be done, by the applied view (H-04)."""
        if self.incarnation is None or self.serving:
            return ()
        required = self.view.required(self.node)
        return tuple(
            Incarnation(row.node, row.boot, row.since) for row in required if self._exchanged.get(row.node) != row.since
        )

    # -- asking

    def due_ms(self, now_ms: float, riding: bool = False) -> float:
        """When the next request may leave, if the store has committed by then; `now_ms` if it may now.

        With `riding` it costs no frame of its own, and may leave earlier.
        """
        if self._next_ms is None:
            return now_ms
        settings = self.settings
        return max(now_ms, self._next_ms - (settings.heartbeat_ms - settings.riding_ms if riding else 0))

    def wants_commit(self, now_ms: float) -> bool:
        """True if the next request lacks a commit of the store and is due within a heartbeat, as it is from the moment
        the one before has left: the shell commits an empty batch."""
        return not self._committed and self.due_ms(now_ms, riding=True) <= now_ms + self.settings.heartbeat_ms

    def request(self, now_ms: float, wall_ms: float, full: bool = False, riding: bool = False) -> LeaseRequest | None:
        """The next request, to be sent to the leader at once, or None if none is due.

        One is due each heartbeat, or earlier where a frame leaves for the leader anyway (`riding`), and at once when
        this node entered a view, completed its exchanges or stood still, and when it hears a peer anew or learns,
        outside of the view, of another one.
        """
        self.turn(now_ms, wall_ms)
        if not self._committed or self.due_ms(now_ms, riding) > now_ms or self.given_back:
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
            mine.since if mine else 0,
            () if self.serving else tuple(sorted(self._exchanged.items())),
            full,
            urgent,
        )

    def hears(self, now_ms: float) -> tuple[str, ...]:
        """The peers heard within the last four heartbeats, sorted."""
        oldest = now_ms - self.settings.hearing_ms
        return tuple(sorted(peer for peer, at in self._heard.items() if at >= oldest))

    def reply(self, reply: LeaseReply, now_ms: float) -> bool:
        """A lease came: it runs from the moment its request was sent. False if it is not for this process any more."""
        asked = self._asked.get(reply.number)
        mine = self.incarnation
        if asked is None or mine is None or (reply.node, reply.process) != (self.node, self.process):
            return False
        if (reply.boot, reply.since) != (mine.boot, mine.since):
            return False
        self._asked = {number: at for number, at in self._asked.items() if number > reply.number}
        self._begun = asked
        # the request and the reply took the same time on their way, and lay with the leader in between
        self.offset_ms = reply.cluster_ms - (asked.mono_ms + now_ms + reply.held_ms) / 2
        self.full = reply.full
        return True

    # -- acting

    def valid(self, now_ms: float, wall_ms: float) -> bool:
        """True if this process holds a lease now. Ask it after reading what is acted on, and before acting (H-04)."""
        self.turn(now_ms, wall_ms)
        return self._left_ms(now_ms, wall_ms) > 0

    def left_ms(self, now_ms: float, wall_ms: float) -> float:
        """What remains of the lease: what `valid` would find, for who looks at it and promises nothing."""
        return 0.0 if self._parted(now_ms, wall_ms) else self._left_ms(now_ms, wall_ms)

    def _left_ms(self, now_ms: float, wall_ms: float) -> float:
        # by the clock that went further: a monotonic clock stands still in a frozen VM
        if self._begun is None:
            return 0.0
        passed = max(now_ms - self._begun.mono_ms, wall_ms - self._begun.wall_ms)
        return max(0.0, self.settings.lease_ms - passed)

    def _parted(self, now_ms: float, wall_ms: float) -> bool:
        """Whether the clocks have parted since the last turn."""
        last = self._last
        if last is None:
            return False
        return abs((wall_ms - last.wall_ms) - (now_ms - last.mono_ms)) > self.settings.parting_ms

    def _lose(self) -> None:
        self._begun = None

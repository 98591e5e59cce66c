"""Decides when a connection is read and when its packets are handled.

A *held* connection waits, for example for a plugin's answer, the disk or its next turn: packets that are already
decoded wait in `held`, in order. The socket of a *paused* connection is not read. Both states have one or more reasons.
The time without reading does not count as silence of the peer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ..plugins.hooks import Verdict
from ..routing.plans import PlanCache
from .services import ConnectionServices
from .transport import ClientTransport
from .turns import PACKETS_PER_TURN, next_size
from .unread_output import Owner as Receiver
from .unread_output import UnreadOutput

TURN = "turn"
HOOK = "hook"
FILTERS = "filters"
PLAN = "plan"
UNROUTED = "unrouted"
_OF_THIS_NODE = frozenset((TURN, HOOK, FILTERS, PLAN, UNROUTED, "parked"))
"""The reasons to hold packets that end without the client."""

ANSWERS_NOT_TAKEN = 65536
"""Bytes of answers that are still written after the transport's buffer is full. Beyond that the peer is not read."""

NOT_TAKEN_MS = 60_000
"""How long the buffer of such a peer may stay full; then the broker closes the connection."""


class Owner(Receiver, Protocol):
    """The client connection whose input is controlled."""

    @property
    def closed(self) -> bool:
        """True after the broker has closed the connection."""
        ...

    def process(self, packets_in: list[Any]) -> None:
        """Handle decoded packets in order, until one has to wait."""
        ...

    def go_on(self, packets_in: list[Any]) -> None:
        """Handle packets that have waited."""
        ...

    def more_packets(self, have: int) -> list[Any]:
        """Decode and return more of the received packets, if `have` is less than a turn handles."""
        ...

    def next_turn(self) -> int:
        """Handle the next waiting packets; returns how many they count as."""
        ...

    def drop(self, reason: str, fire_will: bool = True, detail: str = "") -> None:
        """Close the connection."""
        ...


class FlowControl:
    """The part of a client connection that decides when its socket is read. `last_seen` is cluster time in ms.

    `per_turn` is how many packets it handles in one turn of the loop: `turn_size`, or fewer if a rate limits them.
    `work` is the extra cost of all packets, in packets; `turn_began` is its value when extra cost last ended a turn.
    """

    __slots__ = (
        "_services",
        "_transport",
        "held",
        "held_for",
        "last_seen",
        "owner",
        "paused_for",
        "per_turn",
        "questions",
        "turn_began",
        "turn_size",
        "unread",
        "untaken",
        "work",
    )

    def __init__(self, services: ConnectionServices, transport: ClientTransport, owner: Owner) -> None:
        self._services = services
        self._transport = transport
        self.owner = owner
        self.held: list[Any] | None = None
        self.held_for: set[str] = set()
        self.per_turn = self.turn_size = PACKETS_PER_TURN
        self.work = self.turn_began = 0
        self.questions = 0
        self.paused_for: set[str] = set()
        self.last_seen = services.env.now
        self.unread = UnreadOutput(services.env)
        self.untaken = 0
        """Bytes of answers written since the transport's buffer became full."""

    def hold(self, reason: str) -> None:
        """Stop processing packets for this reason too, until `release`."""
        self.held_for.add(reason)
        if self.held is None:
            self.held = []
            self.pause("held")

    def release(self, reason: str) -> None:
        """Remove this reason; if it was the last, handle the held packets."""
        self.held_for.discard(reason)
        if self.held_for == {TURN}:
            self._services.turns.add(self.owner)  # it may have had its turn while it was held for this reason
        if self.held_for or self.held is None:
            return
        held, self.held = self.held, None
        self.unpause("held")
        if not self.owner.closed:
            self.owner.go_on(held)

    def release_in_turn(self, reason: str) -> None:
        """As `release`, but held packets are handled in a later turn of the loop."""
        if reason in self.held_for:
            if self.held:
                self.held_for.add(TURN)
            self.release(reason)

    def wait_for_turn(self, rest: list[Any]) -> None:
        """Handle these packets in later turns of the loop, or once the connection is released."""
        if self.held is None:
            self.hold(TURN)
            assert self.held is not None
            self._services.turns.add(self.owner)
        self.held.extend(rest)

    def next_turn(self) -> int:
        """Handle the next waiting packets; returns how many they count as."""
        if self.owner.closed or self.held_for != {TURN} or len(self.paused_for) > 1:
            return 0  # `unpause` asks for another turn
        held, self.held = self.held or [], None
        self.held_for.clear()
        began, worked = self._services.env.tick(), self.work
        held += self.owner.more_packets(len(held))
        handled = min(len(held), self.per_turn)
        self.owner.process(held)
        self._resize(self._services.env.tick() - began)
        if self.held is None and not self.owner.closed:
            self.unpause("held")
        return handled + self.work - worked

    def _resize(self, took_ms: int) -> None:
        slowed = self.per_turn < self.turn_size
        self.turn_size = next_size(self.turn_size, took_ms)
        self.per_turn = min(self.per_turn, self.turn_size) if slowed else self.turn_size

    @property
    def waits_for_turn(self) -> bool:
        """True if packets are held, and only for their turn."""
        return self.held_for == {TURN} and self.paused_for == {"held"}

    @property
    def goes_on(self) -> bool:
        """True if packets are held, and will be handled although the transport is lost."""
        return self.held is not None and self.held_for <= _OF_THIS_NODE and "output" not in self.paused_for

    def worked(self, units: int) -> None:
        """Add the extra cost of the current packet, in packets. Too much extra cost ends the connection's turn."""
        self.work += units
        if self.work - self.turn_began >= PACKETS_PER_TURN:
            self.turn_began = self.work
            self.wait_for_turn([])

    def pause(self, reason: str) -> None:
        """Stop reading from the socket for this reason too."""
        if not self.paused_for:
            self._transport.pause_reading()
        self.paused_for.add(reason)

    def unpause(self, reason: str) -> None:
        """Remove this reason; if it was the last, read again. The pause does not count as silence of the peer."""
        self.paused_for.discard(reason)
        if not self.paused_for:
            self.last_seen = self._services.env.tick()
            self._transport.resume_reading()
        elif self.held_for == {TURN} and reason != "held" and len(self.paused_for) == 1:
            self._services.turns.add(self.owner)

    def not_taken(self, size: int) -> None:
        """Count answers to a peer that does not read. If they are too many, stop reading its packets.

        Deliveries stopped before that, when the transport's buffer became full.
        """
        self.untaken += size
        if self.untaken > ANSWERS_NOT_TAKEN and "output" not in self.paused_for and not self.owner.closed:
            self.pause("output")
            self.owner.timers.set("output", NOT_TAKEN_MS, self._give_up)

    def writable(self, flag: bool) -> None:
        """The transport's buffer is full (False) or has room again (True): then end the pause for unread answers."""
        self.untaken = 0
        (self.unread.end if flag else self.unread.begin)(self.owner)
        if flag and "output" in self.paused_for:
            self.owner.timers.cancel("output")
            self.unpause("output")

    def _give_up(self) -> None:
        seconds = NOT_TAKEN_MS // 1000
        self.owner.drop("output_not_read", detail=f"the client did not read its answers for {seconds} s")

    def decide(self, question: Verdict | Awaitable[Verdict], then: Callable[[Verdict], None]) -> None:
        """Call `then` with a hook's answer: at once, or after an asynchronous plugin has answered. Hold until then."""
        if not isinstance(question, Awaitable):
            then(question)
            return
        self.hold(HOOK)
        self.questions += 1

        def answered(verdict: Verdict) -> None:
            self._services.env.tick()
            self.questions -= 1
            if not self.owner.closed:
                then(verdict)
                if not self.questions:  # `then` may have asked a hook again
                    self.release(HOOK)

        self._services.spawn(question, answered)

    def waits_for_plan(self, plans: PlanCache, topic: str, then: Callable[[], None]) -> bool:
        """True if many sessions have to be made for the plan of this topic: hold until that is done, and call `then`
        before the next packets are handled. Only one message at a time waits: one that was received before it does not
        wait behind it."""

        def made() -> None:
            if self.owner.closed:
                return
            self.held_for.discard(PLAN)
            then()
            if PLAN not in self.held_for:  # else `then` waits for another topic
                self.held_for.add(PLAN)
                self.release_in_turn(PLAN)  # a plan may have many publishers

        waits = PLAN not in self.held_for and self._services.router.waking.waits(plans, topic, made)
        if waits:
            self.hold(PLAN)
        return waits

    def throttle(self, delay_ms: int) -> None:
        """Do not read from this client for `delay_ms`, or longer if that was said before (`max_message_rate` and the
        hook's `throttle`)."""
        delay_ms = max(delay_ms, self.owner.timers.left_ms("throttle"))
        self.pause("throttle")
        self.owner.timers.set("throttle", delay_ms, lambda: self.unpause("throttle"))

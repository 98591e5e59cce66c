"""Acknowledgements, in the order of the packets that they answer (docs/architecture.md, section 4).

An answer may have to wait for a commit, or for acknowledgements of other nodes. Otherwise it leaves at once, unless
earlier answers wait. An answer that accepts an operation for the first time leaves only if the node still has its lease
at the end of the turn: match first, test the lease after, then acknowledge (H-04).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from ..environment import Environment
from ..observer import Connection
from ..routing.ack_context import AckContext
from ..routing.pending_acks import PendingAcks
from .flow_control import UNROUTED, FlowControl
from .output_buffer import OutputBuffer
from .timers import ConnectionTimers
from .turns import COPIES_PER_TURN

Item = bytes | Callable[[], None]

PUBLISH = 1
SUBSCRIBE = 2
UNSUBSCRIBE = 4
REGISTER = 8
"""Operations, as bits of `OutputBuffer.accepted`."""
OPERATION_BITS = {"publish": PUBLISH, "subscribe": SUBSCRIBE, "unsubscribe": UNSUBSCRIBE, "register": REGISTER}
"""Name of an operation in the policies -> its bit."""

_FIRST_BYTES = {PUBLISH: (0x40, 0x50), SUBSCRIBE: (0x90,), UNSUBSCRIBE: (0xB0,), REGISTER: (0x20,)}
"""Operation -> first bytes of the packets that answer it."""


def count_operations(frames: list[bytes], accepted: int) -> dict[str, int]:
    """Count the operations that the frames answer, by name; at least one for each bit in `accepted`."""
    found = {}
    for name, bit in OPERATION_BITS.items():
        if accepted & bit:
            first = _FIRST_BYTES[bit]
            found[name] = max(1, sum(len(f) > 1 and f[0] in first and f[1] == len(f) - 2 for f in frames))
    return found


_UNANSWERED = "unanswered"
_TELL_AFTER_MS = 5000
"""The event log reports a connection that is not read for this time, because too many packets have no answer."""


class Owner(Connection, Protocol):
    """The client connection that the answers belong to."""

    timers: ConnectionTimers

    @property
    def closed(self) -> bool:
        """True after the broker has closed the connection."""
        ...

    def too_late(self) -> None:
        """Another node did not confirm in time: disconnect the client."""
        ...


class _Answer(msgspec.Struct):
    """An answer that waits: `item` leaves once the commit is safe and no condition in `pending` is open.

    `operation` is the bit of the operation that it accepts for the first time, or 0. `unacked` is 1 if it answers a
    QoS 1 PUBLISH, which counts against the Receive Maximum. `since` is cluster time in ms when the wait began.
    """

    commit: int
    item: Item
    unacked: int
    pending: PendingAcks | None
    operation: int
    since: int = 0


class AckQueue:
    """The answers of one client connection. `unacked` counts PUBLISH packets whose answer has not left, `unrouted`
    messages of QoS 2 that wait here until they are routed: no later message of the client may overtake them."""

    __slots__ = (
        "_advancing",
        "_env",
        "_flow",
        "_output",
        "_registered_commit",
        "owner",
        "unacked",
        "unrouted",
        "waiting",
    )

    def __init__(self, env: Environment, output: OutputBuffer, flow: FlowControl, owner: Owner) -> None:
        self._env = env
        self._output = output
        self._flow = flow
        self.owner = owner
        self.waiting: deque[_Answer] = deque()
        self.unacked = 0
        self.unrouted = 0
        self._registered_commit = 0
        self._advancing = False

    def accept(self, item: Item, wait: bool, context: AckContext, unacked: int = 0, operation: int = PUBLISH) -> None:
        """As `reply`, for an operation that is accepted for the first time: the answer also waits for the conditions in
        `context`, and leaves only with a lease."""
        self.reply(item, wait, unacked, context.take(), operation)

    def reply(
        self, item: Item, wait: bool, unacked: int = 0, pending: PendingAcks | None = None, operation: int = 0
    ) -> None:
        """Send an acknowledgement, or call a function, in order; with `wait` only when the open batch is safe.

        `unacked` is 1 for the PUBACK of a PUBLISH, which counts against the Receive Maximum until the answer leaves.
        """
        waiting = self.waiting
        if pending is not None and not pending.open:
            pending = None
        if wait:
            commit = self._env.store.open_commit
        elif waiting:
            commit = waiting[-1].commit
        elif pending is None:
            self._output.accepted |= operation
            self._env.counters.puback_wait.at_once += unacked
            self._emit(item)
            return
        else:
            commit = 0
        self.unacked += unacked
        waiting.append(_Answer(commit, item, unacked, pending, operation, self._env.now))
        if pending is not None:
            pending.waiter = self._advance
        self._wait_for(commit)

    def _wait_for(self, commit: int) -> None:
        if self._registered_commit < commit:
            self._registered_commit = commit
            self._env.store.when_committed(commit, self._advance)

    def route(self, route: Callable[[], None], wait: bool) -> None:
        """Call a function that routes a message of QoS 2, in order, as `reply` does."""
        self.reply(self._counted(route), wait)

    def _counted(self, route: Callable[[], None]) -> Callable[[], None]:
        self.unrouted += 1

        def its_turn() -> None:
            route()
            self.unrouted -= 1
            if not self.unrouted:
                self._flow.release_in_turn(UNROUTED)

        return its_turn

    def requeue(self, route: Callable[[], None]) -> None:
        """Put a message whose turn had come back before all others: it must also wait for the open batch."""
        commit = self._env.store.open_commit
        self.waiting.appendleft(_Answer(commit, self._counted(route), 0, None, 0))
        self._wait_for(commit)

    def requeue_all(self, routes: list[Callable[[], None]]) -> None:
        """Put messages whose turn had come, and which then waited for something else, back before all others."""
        self.waiting.extendleft([_Answer(0, self._counted(route), 0, None, 0) for route in reversed(routes)])
        self._advance()

    def unanswered(self) -> dict[str, int]:
        """Operations that were accepted and have no answer yet, by name."""
        found = dict.fromkeys(OPERATION_BITS, 0)
        for answer in self.waiting:
            for name, bit in OPERATION_BITS.items():
                found[name] += answer.operation == bit
        return {name: number for name, number in found.items() if number}

    def bound(self) -> None:
        """Stop reading while too many packets wait for their answers. Reading resumes at half the limit.

        Each packet uses memory here, and perhaps in the lanes to other nodes, until the disk or the last of these nodes
        has it.
        """
        limit = self._env.options.max_unanswered_packets
        if limit and len(self.waiting) >= limit and _UNANSWERED not in self._flow.paused_for:
            self._flow.pause(_UNANSWERED)
            self.owner.timers.set(_UNANSWERED, _TELL_AFTER_MS, self._tell_unanswered)

    def _tell_unanswered(self) -> None:
        self._env.observer.reading_paused(self.owner, _UNANSWERED, len(self.waiting))

    def _read_on(self) -> None:
        if 2 * len(self.waiting) <= self._env.options.max_unanswered_packets and not self.owner.closed:
            self.owner.timers.cancel(_UNANSWERED)
            self._flow.unpause(_UNANSWERED)

    def owes_answers(self) -> bool:
        """True if a routed PUBLISH has no answer yet, or an answer waits for other nodes."""
        return any(
            answer.operation == PUBLISH or (answer.pending is not None and answer.pending.open)
            for answer in self.waiting
        )

    def open_conditions(self) -> list[PendingAcks]:
        """The conditions on other nodes of the answers that wait."""
        return [answer.pending for answer in self.waiting if answer.pending is not None and answer.pending.open]

    def _advance(self) -> None:
        """The disk or another node has met a condition: send the answers that are due.

        An item that is a function may lead to another call of this method, for example if routing a message reveals a
        new view. That call returns at once, so that the items stay in order. So do calls while the rest of the items
        waits for the next turn of the loop.
        """
        if not self._advancing:
            self._go_on()

    def _go_on(self) -> None:
        self._env.tick()
        self._advancing = True
        due = False
        try:
            due = self._emit_those_due()
        finally:
            self._advancing = due
        if due:
            self._env.after_turn(self._go_on)
        if _UNANSWERED in self._flow.paused_for:
            self._read_on()

    def _emit_those_due(self) -> bool:
        """Send answers until one has to wait. True if it only waits for the next turn of the loop: messages of QoS 2,
        which are routed here, have put enough copies into queues."""
        waiting, env, store = self.waiting, self._env, self._env.store
        most_copies = env.counters.router_matches_local + COPIES_PER_TURN
        while waiting:
            answer = waiting[0]
            pending = answer.pending
            if answer.commit > store.committed or (pending is not None and pending.open and not pending.failed):
                break
            if env.counters.router_matches_local >= most_copies:
                return True
            waiting.popleft()
            if pending is not None:
                pending.waiter = None  # another call is not needed: see `complete_all`
                if pending.failed:
                    self.owner.too_late()
            self.unacked -= answer.unacked
            if not self.owner.closed:
                self._output.accepted |= answer.operation
                if answer.unacked:
                    env.counters.puback_wait.add(max(0, env.now - answer.since) / 1000)
                self._emit(answer.item)
        return False

    def _emit(self, item: Item) -> None:
        if isinstance(item, bytes):
            self._output.write(item)
        else:
            item()

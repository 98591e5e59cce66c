"""Acknowledgements, in the order of the packets that they answer (docs/architecture.md, section 4).

One that needs the disk waits in `pending` for its commit, one that needs other nodes for its obligation; one that needs
neither goes at once, unless others wait before it. An answer that *promises* something, because it accepts what was
offered for the first time, leaves only if at the end of the turn the node still has its lease: match first, test the
lease after, then acknowledge (H-04).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..routing.pending_acks import PendingAcks
from .flow_control import FlowControl
from .transport import ClientTransport

if TYPE_CHECKING:
    from ..node import Node

Item = bytes | Callable[[], None]

PUBLISH = 1
SUBSCRIBE = 2
UNSUBSCRIBE = 4
REGISTER = 8
"""Operations, as bits of `OutputBuffer.promised`."""
OPERATION_BITS = {"publish": PUBLISH, "subscribe": SUBSCRIBE, "unsubscribe": UNSUBSCRIBE, "register": REGISTER}
"""By the names that the policies have for them."""


_FIRST_BYTES = {PUBLISH: (0x40, 0x50), SUBSCRIBE: (0x90,), UNSUBSCRIBE: (0xB0,), REGISTER: (0x20,)}
"""Operation -> first bytes of the packets that answer it."""


def operations(out: list[bytes], promised: int) -> dict[str, int]:
    """How many operations the frames in `out` answer, by name; of each in `promised` at least one."""
    found = {}
    for name, bit in OPERATION_BITS.items():
        if promised & bit:
            first = _FIRST_BYTES[bit]
            found[name] = max(1, sum(len(f) > 1 and f[0] in first and f[1] == len(f) - 2 for f in out))
    return found


_UNANSWERED = "unanswered"
_TELL_AFTER_MS = 5000
"""The log tells of a connection that is not read for so long because its answers do not come."""


class AckQueue(FlowControl):
    """The part of a front that answers. `unacked` counts PUBLISH packets whose answer has not left."""

    __slots__ = ("_advancing", "pending", "registered_commit", "unacked")

    def __init__(self, node: Node, link: ClientTransport) -> None:
        super().__init__(node, link)
        self.pending: deque[tuple[int, Item, int, PendingAcks | None, int]] = deque()
        self.registered_commit = 0
        self.unacked = 0
        self._advancing = False

    def promise(self, item: Item, wait: bool, unacked: int = 0, operation: int = PUBLISH) -> None:
        """`reply` to a first acceptance: it waits for what `node.owed` says, too, and for the lease."""
        owed, self.node.owed = self.node.owed, None
        self.reply(item, wait, unacked, owed, operation)

    def reply(
        self, item: Item, wait: bool, unacked: int = 0, owed: PendingAcks | None = None, operation: int = 0
    ) -> None:
        """Send an acknowledgement, or do what comes after one, in order; with `wait` after the open batch is safe.

        `unacked` is 1 for the answer to a PUBLISH, which counts against the Receive Maximum until it leaves.
        """
        pending = self.pending
        if owed is not None and not owed.open:
            owed = None
        if wait:
            commit = self.node.store.open_commit
        elif pending:
            commit = pending[-1][0]
        elif owed is None:
            self.promised |= operation
            self._emit(item)
            return
        else:
            commit = 0
        self.unacked += unacked
        pending.append((commit, item, unacked, owed, operation))
        if owed is not None:
            owed.waiter = self._advance
        if self.registered_commit < commit:
            self.registered_commit = commit
            self.node.store.when_committed(commit, self._advance)

    def too_late(self) -> None:
        """What an answer waits for did not come in time; the front's part."""
        raise AssertionError("a front answers")

    def wait_again(self, item: Item) -> None:
        """What came up has to wait for the open batch after all: it stays before everything that came behind it."""
        commit = self.node.store.open_commit
        self.pending.appendleft((commit, item, 0, None, 0))
        if self.registered_commit < commit:
            self.registered_commit = commit
            self.node.store.when_committed(commit, self._advance)

    def go_on(self, items: list[Item]) -> None:
        """Do what came up and had to wait for something else: in its order, before everything that came behind it."""
        self.pending.extendleft([(0, item, 0, None, 0) for item in reversed(items)])
        self._advance()

    def unanswered(self) -> dict[str, int]:
        """Operations that were accepted and have no answer yet, by name."""
        found = dict.fromkeys(OPERATION_BITS, 0)
        for _, _, _, _, operation in self.pending:
            for name, bit in OPERATION_BITS.items():
                found[name] += operation == bit
        return {name: number for name, number in found.items() if number}

    def bound_answers(self) -> None:
        """Stop reading while too many packets wait for their answers: each is kept here, and perhaps in other nodes'
        lanes, until the disk or the last of these nodes has it. Reading goes on when half of them are answered."""
        limit = self.node.options.max_unanswered_packets
        if limit and len(self.pending) >= limit and _UNANSWERED not in self.paused_for:
            self.pause(_UNANSWERED)
            self.set_timer(_UNANSWERED, _TELL_AFTER_MS, self._tell_unanswered)

    def _tell_unanswered(self) -> None:
        self.node.reading_paused(self, _UNANSWERED, len(self.pending))

    def _read_on(self) -> None:
        if 2 * len(self.pending) <= self.node.options.max_unanswered_packets and not self.closed:
            self.cancel_timer(_UNANSWERED)
            self.unpause(_UNANSWERED)

    def owes_answers(self) -> bool:
        """A PUBLISH that was routed has no answer yet, or an answer waits for other nodes."""
        return any(
            operation == PUBLISH or (owed is not None and owed.open) for _, _, _, owed, operation in self.pending
        )

    def _advance(self) -> None:
        """A commit or an obligation that somebody waited for is done.

        What one item does may end here again (routing a message may show a new view): the next item waits for it.
        """
        if self._advancing:
            return
        self.node.tick()
        self._advancing = True
        try:
            self._emit_all_that_is_due()
        finally:
            self._advancing = False
        if _UNANSWERED in self.paused_for:
            self._read_on()

    def _emit_all_that_is_due(self) -> None:
        pending, store = self.pending, self.node.store
        while pending:
            commit, item, unacked, owed, operation = pending[0]
            if commit > store.committed or (owed is not None and owed.open and not owed.failed):
                break
            pending.popleft()
            if owed is not None:
                owed.waiter = None  # nobody has to tell us again: see `discharge_all`
                if owed.failed:
                    self.too_late()
            self.unacked -= unacked
            if not self.closed:
                self.promised |= operation
                self._emit(item)

    def _emit(self, item: Item) -> None:
        if isinstance(item, bytes):
            self.write(item)
        else:
            item()

"""Anti-entropy between two nodes: they compare clocks, and each sends the writes that the other lacks.

    asker                                   asked
      SyncRequest(clocks, view)    ->         waits until it has applied that view (H-04)
      (applies)                    <-         Batch ... Batch(last, clocks)
      BatchAck (one per batch)     ->
      Batch ... Batch(last)        ->         the writes that the asked side lacks, by the clocks of its last batch
      done                         <-         BatchAck

A node asks one peer at a time, so a node that comes back fetches the map once and not from all peers at once. At most
`WINDOW` batches are unacknowledged in either direction. A request without progress for `RETRY_MS` is repeated with the
present clocks, so no write is fetched twice. It ends with False after `GIVE_UP_MS`, or when the peer leaves. A node
that is entering a view takes no batches from peers that ask it: each of them would send it the whole map. A node
without a lease gives a serving peer nothing, except in the exchanges with which it enters a view (`unacknowledged.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .delta_sender import DeltaSender
from .messages import Batch, BatchAck, Message, Part, PartWriter, SyncRequest
from .replica import Replica
from .unacknowledged import Unacknowledged
from .version_vector import VersionVector

WINDOW = 4
RETRY_MS = 5_000
GIVE_UP_MS = 60_000
"""vmq_swc.sync_timeout."""

Then = Callable[[bool], None]
Clocks = tuple[VersionVector, VersionVector]


@dataclass(slots=True)
class Cost:
    """Cost of an exchange on this side: messages, keys sent or compared, and batches of the peer applied."""

    messages: int = 0
    keys: int = 0
    batches: int = 0


class Sending:
    """Sends batches of both halves to one peer, at most `WINDOW` of them unacknowledged."""

    def __init__(
        self, boot: int, exchange: int, answer: bool, outgoing: Sequence[DeltaSender], clocks: list[Part]
    ) -> None:
        self._boot = boot
        self._exchange = exchange
        self._answer = answer
        self._outgoing = deque(outgoing)
        self._clocks = clocks
        self._number = 0
        self._under_way: set[int] = set()
        self._ended = False
        self.empty = all(each.empty for each in outgoing)
        self.quiet_since = 0.0

    @property
    def done(self) -> bool:
        """Whether the peer has applied everything."""
        return self._ended and not self._under_way

    def more(self, number: int) -> None:
        """The peer has applied the batch with this number."""
        self._under_way.discard(number)

    def batches(self, cost: Cost) -> list[Batch]:
        """Returns the batches to send now. Adds their number and their keys to `cost`."""
        ready = []
        while len(self._under_way) < WINDOW and not self._ended:
            parts: list[Part] = []
            while self._outgoing and not parts:
                part = self._outgoing[0].step()
                if part is None:
                    cost.keys += self._outgoing.popleft().keys_compared
                else:
                    parts = [part]
            self._ended = not parts
            self._number += 1
            self._under_way.add(self._number)
            ready.append(
                Batch(self._boot, self._exchange, self._number, self._answer, self._ended, parts or self._clocks)
            )
        cost.messages += len(ready)
        return ready


@dataclass(slots=True)
class Question:
    """An exchange that this node asked for."""

    peer: str
    view: int
    then: Then
    began_ms: float = 0
    asked_ms: float = 0
    exchange: int = 0
    sending: Sending | None = None


class AntiEntropy:
    """The exchanges of one node. `send` uses the FIFO lane, `absorb` applies parts, `now_ms` is monotonic."""

    def __init__(
        self,
        boot: int,
        halves: tuple[Replica, Replica],
        send: Callable[[str, Message], None],
        absorb: Callable[[str, list[Part]], None],
        applied_view: Callable[[], int],
        now_ms: Callable[[], float],
    ) -> None:
        self._boot = boot
        self._halves = halves
        self._send = send
        self._absorb = absorb
        self._applied_view = applied_view
        self._waiting: deque[Question] = deque()
        self._running: Question | None = None
        self._answers: dict[str, tuple[int, Sending]] = {}
        self._parked: dict[str, tuple[SyncRequest, Clocks]] = {}
        self._next = boot << 32  # so an answer to an earlier process matches no request of this one
        self._now_ms = now_ms
        self.on_compared: Callable[[str, int, int | None], None] = lambda peer, exchange, behind: None
        """Called with the peer and the number of an exchange: when this node has all that the peer had (`behind`: the
        writes that it lacks nevertheless), and when it begins to answer (`behind` is None)."""
        self.unacknowledged: Unacknowledged | None = None
        """It gets the clocks of each peer before this node sends what the peer lacks."""
        self._cost = Cost()
        self.last_cost = Cost()

    @property
    def serving(self) -> bool:
        """Whether this node is sending entries of the log to a peer. Meanwhile the log must not be trimmed."""
        return bool(self._answers) or (self._running is not None and self._running.sending is not None)

    def pending(self) -> list[str]:
        """Returns the peers of all unfinished exchanges that this node asked for."""
        return [question.peer for question in ([self._running] if self._running else []) + list(self._waiting)]

    def ask(self, peer: str, view: int, then: Then) -> None:
        """Queue an exchange with a peer. `then(True)`: both sides now have all writes that either had; `then(False)`:
        it failed."""
        self._waiting.append(Question(peer, view, then))
        self._begin()

    def _begin(self) -> None:
        if self._running is None and self._waiting:
            self._running = self._waiting.popleft()
            self._running.began_ms = self._now_ms()
            self._cost = Cost()
            self._put()

    def _put(self) -> None:
        question = self._running
        assert question is not None
        self._next += 1
        question.exchange = self._next
        question.asked_ms = self._now_ms()
        question.sending = None
        self._cost.messages += 1
        self._send(question.peer, SyncRequest(self._boot, self._next, question.view, self.clocks()))

    def clocks(self) -> list[Part]:
        """Returns a part for each half with only its clock."""
        return [PartWriter(half, replica.clock).part for half, replica in enumerate(self._halves)]

    def _end(self, well: bool) -> None:
        question, self._running = self._running, None
        assert question is not None
        self.last_cost = self._cost
        question.then(well)
        self._begin()

    # Messages of peers

    def asked(self, peer: str, ask: SyncRequest, theirs: Clocks) -> None:
        """A peer asks for an exchange: answer once this node has applied the view of the request (one per peer)."""
        if ask.view > self._applied_view():
            self._parked[peer] = (ask, theirs)
            return
        if self.unacknowledged is not None:
            self.unacknowledged.compared(peer, theirs[0], learned=False)
        if self._withholds(peer, ask.view):
            self._send(peer, Batch(self._boot, ask.exchange, 1, True, True, self.clocks(), rejoin=True))
            return
        sending = self._sending(ask.exchange, True, theirs)
        self.on_compared(peer, ask.exchange, None)
        self._answers.pop(peer, None)
        if not sending.empty:
            self._answers[peer] = (ask.exchange, sending)
        self._go_on(peer, sending)

    def _withholds(self, peer: str, view: int) -> bool:
        """Whether this node sends a peer no keys yet: its own writes give way first, when it enters a view (H-16)."""
        return not view and self.unacknowledged is not None and self.unacknowledged.when(peer)

    def _sending(self, exchange: int, answer: bool, theirs: Clocks) -> Sending:
        outgoing = [DeltaSender(half, replica, theirs[half]) for half, replica in enumerate(self._halves)]
        sending = Sending(self._boot, exchange, answer, outgoing, self.clocks())
        sending.quiet_since = self._now_ms()
        return sending

    def _go_on(self, peer: str, sending: Sending) -> None:
        for batch in sending.batches(self._cost):
            batch.rejoin = batch.answer and batch.last and self._running is not None and self._running.view > 0
            self._send(peer, batch)

    def batch(self, peer: str, batch: Batch, theirs: Clocks | None, in_view: bool = True) -> None:
        """A batch of a peer arrived: apply and acknowledge it. `theirs`: the peer's clocks, in its last batch.

        Only a peer that is `in_view` gives this node what it has not asked for.
        """
        question = self._running
        current = question is not None and question.peer == peer and question.exchange == batch.exchange
        if batch.answer and not current:
            return  # answers a request that was repeated since: the newer answer has all of it
        if batch.answer or in_view:
            self._absorb(peer, batch.parts)
        self._cost.batches += 1
        self._cost.messages += 1
        self._send(peer, BatchAck(self._boot, batch.exchange, batch.number, batch.answer))
        if question is None or not batch.answer:
            return
        question.asked_ms = self._now_ms()
        if batch.last and batch.rejoin and not question.view:
            self._end(True)
        elif batch.last and theirs is not None and question.sending is None:
            if self.unacknowledged is not None:
                self.unacknowledged.compared(peer, theirs[0], learned=bool(question.view))
            self.on_compared(peer, batch.exchange, self._behind(theirs))
            if self._withholds(peer, question.view):
                self._end(True)
                return
            question.sending = self._sending(batch.exchange, False, theirs)
            if question.sending.empty:
                self._end(True)
            else:
                self._go_on(peer, question.sending)

    def _behind(self, theirs: Clocks) -> int:
        """Returns the number of writes that the peer has seen and this node has not."""
        pairs = zip(self._halves, theirs, strict=True)
        return sum(high - low for replica, clock in pairs for _, low, high in replica.clock.lacks(clock))

    def more(self, peer: str, more: BatchAck) -> None:
        """A peer has applied a batch of this node: send the next ones, and end the exchange after the last one."""
        if more.answer:
            exchange, sending = self._answers.get(peer, (0, None))
            if sending is None or exchange != more.exchange:
                return
            sending.more(more.number)
            sending.quiet_since = self._now_ms()
            self._go_on(peer, sending)
            if sending.done:
                del self._answers[peer]
            return
        question = self._running
        if question is None or question.sending is None or (question.peer, question.exchange) != (peer, more.exchange):
            return
        question.asked_ms = self._now_ms()
        question.sending.more(more.number)
        self._go_on(peer, question.sending)
        if question.sending.done:
            self._end(True)

    # Time and views

    def view_applied(self) -> None:
        """Answer the requests whose view has been applied now."""
        if self._parked:
            view = self._applied_view()
            for peer in [peer for peer, (ask, _) in self._parked.items() if ask.view <= view]:
                self.asked(peer, *self._parked.pop(peer))

    def only(self, peers: Sequence[str]) -> None:
        """Only `peers` are still in the view: fail the exchanges with other nodes, and stop answering these.

        Keep requests for a later view than the applied one, because the asking peer may be in that view.
        """
        for peer in [peer for peer in self._answers if peer not in peers]:
            del self._answers[peer]
        gone = [question for question in self._waiting if question.peer not in peers]
        self._waiting = deque(question for question in self._waiting if question.peer in peers)
        for question in gone:
            question.then(False)
        if self._running is not None and self._running.peer not in peers:
            self._end(False)

    def tick(self) -> None:
        """Repeat requests without progress, give up old ones, and stop answering peers that have given up."""
        if not self._answers and self._running is None:
            return
        now_ms = self._now_ms()
        # A peer repeats its request after RETRY_MS of silence: one that is silent for longer has given up.
        for peer in [p for p, (_, sending) in self._answers.items() if now_ms - sending.quiet_since > 2 * RETRY_MS]:
            del self._answers[peer]
        question = self._running
        if question is not None and now_ms - question.asked_ms > RETRY_MS:
            if now_ms - question.began_ms > GIVE_UP_MS:
                self._end(False)
            else:
                self._put()

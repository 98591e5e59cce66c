"""What a leader does: spreads its log, counts what is durable where, keeps in touch, hands over (5.3, 5.4.2, 8).

Nothing is sent when it happens. `messages` is asked once per batch and makes one pass over the peers: everything that
was proposed, acknowledged and asked since the batch before leaves together.
"""

from __future__ import annotations

from collections import deque

from .configuration import agreed_by_all, check
from .interface import ChangePending, Rejected, Settings
from .log import Log
from .messages import Change, Entry, Kind, Message, MessageKind, Snapshot, encode_change
from .progress import Pace, Progress

EARLY_MS = 1
"""A timer may end this much too early. Heartbeats leave then all the same, and do not wait for the next timer."""


class Leadership:
    """One peer's leadership of one term. It begins with an empty entry, through which all before it is committed."""

    def __init__(self, peer: str, term: int, log: Log, settings: Settings, now_ms: float) -> None:
        self.peer = peer
        self.term = term
        self.transferee: str | None = None
        self.beat_at_ms = now_ms + settings.heartbeat_ms
        self._log = log
        self._settings = settings
        self._peers: dict[str, Progress] = {}
        self._beat_due = False
        self._round = 0
        self._asked: list[int] = []  # tickets that the next round of heartbeats is for
        self._tickets: deque[tuple[int, int]] = deque()  # (round, ticket)
        self._hand_over_until_ms = 0.0
        self._hand_over_due = False
        self.first_index = self._append(Kind.EMPTY, b"")
        self._meet(now_ms)

    # The log

    def propose(self, data: bytes) -> int:
        """Append a command; its index."""
        return self._append(Kind.COMMAND, data)

    def change(self, change: Change, now_ms: float) -> int:
        """Append a change of the configuration, which is in force at once; its index.

        Raises `ChangePending` while one is uncommitted, and before an entry of this term is committed: without the
        latter two leaders could work with configurations whose majorities do not meet (Ongaro on raft-dev, 2015).
        Raises `Rejected` if it makes no sense.
        """
        log = self._log
        if log.committed < max(self.first_index, log.history.last_index):
            raise ChangePending(f"entry {max(self.first_index, log.history.last_index)} is not committed yet")
        check(log.history.last, change, lambda peer: self.caught_up(peer, now_ms))
        index = self._append(Kind.CHANGE, encode_change(change))
        self._meet(now_ms)
        return index

    def _append(self, kind: Kind, data: bytes) -> int:
        index = self._log.last_index + 1
        self._log.append(Entry(index, self.term, kind, data))
        return index

    def _meet(self, now_ms: float) -> None:
        """Keep a progress for each other peer of the configuration, and for nobody else."""
        before = self._peers
        self._peers = {
            peer: before.get(peer) or Progress(self._log.last_index, self._settings.max_inflight, now_ms)
            for peer in self._log.history.last.peers
            if peer != self.peer
        }
        if self.transferee not in self._log.history.last.voters:
            self.transferee = None

    def commit(self) -> bool:
        """Commit what is durable at a majority of the voters; whether there is news.

        Only an entry of the own term is committed by counting, and with it all before it: a majority that holds an
        older entry does not keep a later leader from replacing it (5.4.2, figure 8).
        """
        if self._log.committed == self._log.last_index:
            return False
        index = int(agreed_by_all(self._log.quorums, self._match))
        return self._countable(index) and self._log.commit(index)

    def _countable(self, index: int) -> bool:
        return self._log.term(index) == self.term

    def _match(self, voter: str) -> int:
        # The leader itself is a voter like the others: its entries count once they are durable. A former voter that is
        # removed by the entry at hand gets no more of the log.
        if voter == self.peer:
            return self._log.stable
        progress = self._peers.get(voter)
        return progress.match if progress else 0

    @property
    def deposed(self) -> bool:
        """Whether a configuration is committed in which this leader does not vote (thesis 4.2.2)."""
        history = self._log.history
        return self.peer not in history.last.voters and self._log.committed >= history.last_index

    # Time

    def tick(self, now_ms: float) -> bool:
        """Time has passed. False if no majority of the voters was heard for an election timeout: lead no more."""
        if now_ms >= self.beat_at_ms - EARLY_MS:
            self.beat_at_ms = now_ms + self._settings.heartbeat_ms
            self.beat()
        if self.transferee is not None and now_ms >= self._hand_over_until_ms:
            self.transferee = None
        heard_ms = agreed_by_all(self._log.quorums, lambda voter: self._heard_ms(voter, now_ms))
        return now_ms - heard_ms < self._settings.election_ms[1]

    def _heard_ms(self, voter: str, now_ms: float) -> float:
        if voter == self.peer:
            return now_ms
        progress = self._peers.get(voter)
        return progress.heard_ms if progress else 0.0

    def _answered(self, voter: str) -> int:
        if voter == self.peer:
            return self._round
        progress = self._peers.get(voter)
        return progress.round if progress else 0

    def answers(self, peer: str, now_ms: float) -> bool:
        """Whether this peer was heard within the shortest election timeout; a new leader begins as if it were."""
        if peer == self.peer:
            return True
        progress = self._peers.get(peer)
        return progress is not None and now_ms - progress.heard_ms < self._settings.election_ms[0]

    def caught_up(self, peer: str, now_ms: float) -> bool:
        """Whether this peer answers, and lacks at most `Settings.caught_up` entries."""
        if peer == self.peer:
            return True
        progress = self._peers.get(peer)
        return (
            progress is not None
            and progress.pace is Pace.REPLICATE
            and progress.match + self._settings.caught_up >= self._log.last_index
            and self.answers(peer, now_ms)
        )

    def transfer(self, peer: str, now_ms: float) -> None:
        """Bring a voter up to date, proposing nothing meanwhile, and let it stand for election (thesis 3.10).

        Given up after an election timeout. Raises `Rejected` if `peer` is no other voter.
        """
        if peer == self.peer or peer not in self._log.history.last.voters:
            raise Rejected(f"{peer} is not another voter, so it cannot lead")
        self.transferee = peer
        self._hand_over_until_ms = now_ms + self._settings.election_ms[1]
        self._hand_over_due = True

    # Tickets

    def confirm(self, ticket: int, at_once: bool = True) -> None:
        """Find out whether this is still the leader, by a round of heartbeats that begins after now (section 8).

        One round serves all tickets that were asked for before it. Without `at_once` it is the next one that is due.
        """
        self._asked.append(ticket)
        if at_once:
            self.beat()

    def beat(self) -> None:
        """Let the next round of heartbeats begin with the next messages; the one after it is due a heartbeat later."""
        self._beat_due = True

    def confirmed(self) -> tuple[int, ...]:
        """The tickets whose round a majority of the voters answered; none before this term has a committed entry."""
        if not self._tickets or self._log.committed < self.first_index:
            return ()
        answered = agreed_by_all(self._log.quorums, self._answered)
        found = []
        while self._tickets and self._tickets[0][0] <= answered:
            found.append(self._tickets.popleft()[1])
        return tuple(found)

    # Messages

    def receive(self, message: Message, now_ms: float) -> None:
        """A reply of this term."""
        progress = self._peers.get(message.sender)
        if progress is None:
            return
        progress.heard_ms = now_ms
        if message.kind is MessageKind.HEARTBEAT_REPLY:
            progress.round = max(progress.round, message.round)
            progress.answered_heartbeat(self._log.last_index, now_ms, self._settings.snapshot_retry_ms)
        elif message.kind is MessageKind.APPEND_REPLY:
            if message.reject:
                # The follower names its last entry with a term not above ours; we go on to our last one with a term
                # not above that: each answer skips at least one whole term of one of the logs (5.3).
                progress.refused(message.index, self._log.last_of(message.hint, message.log_term))
            else:
                assert message.index <= self._log.last_index, f"{message.sender} holds more than its leader"
                progress.acknowledged(message.index)

    def messages(self, now_ms: float) -> list[Message]:
        """All that is to be sent now."""
        if self._beat_due:
            self.beat_at_ms = now_ms + self._settings.heartbeat_ms
            if self._asked:
                self._round += 1
                self._tickets.extend((self._round, ticket) for ticket in self._asked)
                self._asked = []
        out: list[Message] = []
        for peer, progress in self._peers.items():
            if self._beat_due:
                # A peer may hold entries behind `match` that contradict ours: they must not become committed.
                commit = min(progress.match, self._log.committed)
                out.append(self._message(MessageKind.HEARTBEAT, peer, commit=commit, round=self._round))
            self._feed(peer, progress, now_ms, out)
        self._beat_due = False
        if self._hand_over_due and self.transferee and self._peers[self.transferee].match == self._log.last_index:
            self._hand_over_due = False
            out.append(self._message(MessageKind.TIMEOUT_NOW, self.transferee))
        return out

    def farewell(self, now_ms: float) -> list[Message]:
        """The last messages of a leader that was removed: what is committed, and who should lead next."""
        out = self.messages(now_ms)
        heir = max(self._log.history.last.voters, key=self._match)
        return [*out, self._message(MessageKind.TIMEOUT_NOW, heir)]

    def _feed(self, peer: str, progress: Progress, now_ms: float, out: list[Message]) -> None:
        """Send a peer what it lacks, as far as its pace allows."""
        log = self._log
        last_index = log.last_index
        while (
            progress.next <= last_index or progress.nudged or progress.commit_sent < log.committed
        ) and not progress.paused:
            index = progress.next - 1
            log_term = log.term(index)
            if log_term is None:
                snapshot = log.snapshot
                assert snapshot is not None
                progress.sent_snapshot(snapshot.index, now_ms)
                out.append(self._message(MessageKind.SNAPSHOT, peer, snapshot=snapshot))
                return
            entries = log.portion(progress.next, self._settings.max_append_bytes)
            progress.sent(len(entries), now_ms)
            progress.commit_sent = log.committed
            out.append(Message(MessageKind.APPEND, peer, self.peer, self.term, index, log_term, log.committed, entries))

    def _message(
        self, kind: MessageKind, to: str, commit: int = 0, round: int = 0, snapshot: Snapshot | None = None
    ) -> Message:
        return Message(kind, to, self.peer, self.term, commit=commit, round=round, snapshot=snapshot)

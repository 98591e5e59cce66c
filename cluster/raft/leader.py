"""The leader: replicates its log, commits entries, sends heartbeats, transfers leadership (5.3, 5.4.2, 8).

No method sends at once. The owner calls `messages` once for each batch: it makes one pass over the peers, and collects
the messages for all proposals, answers and tickets since the last batch.
"""

from __future__ import annotations

from collections import deque

from .configuration import agreed_by_all, check
from .interface import ChangePending, Rejected, Settings
from .log import Log
from .messages import Change, Entry, Kind, Message, MessageKind, Snapshot, encode_change
from .progress import Pace, Progress

EARLY_MS = 1
"""A timer may end this early, in ms: heartbeats leave then, too, and do not wait for the next timer."""


class Leadership:
    """One peer's leadership of one term. It begins with an empty entry: committing it commits all entries before it."""

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
        self._asked: list[int] = []  # tickets for the next round of heartbeats
        self._tickets: deque[tuple[int, int]] = deque()  # (round, ticket)
        self._hand_over_until_ms = 0.0
        self._hand_over_due = False
        self.first_index = self._append(Kind.EMPTY, b"")
        self._meet(now_ms)

    # The log

    def propose(self, data: bytes) -> int:
        """Append a command. Returns its index."""
        return self._append(Kind.COMMAND, data)

    def change(self, change: Change, now_ms: float) -> int:
        """Append a change of the configuration, which is in force at once. Returns its index.

        Raises `ChangePending` while a change is uncommitted, and before an entry of this term is committed. Without the
        second rule two leaders could use configurations whose majorities do not overlap (Ongaro on raft-dev, 2015).
        Raises `Rejected` if the change is not possible (`configuration.check`).
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
        """Keep a `Progress` for each other peer of the configuration; drop the others."""
        before = self._peers
        self._peers = {
            peer: before.get(peer) or Progress(self._log.last_index, self._settings.max_inflight, now_ms)
            for peer in self._log.history.last.peers
            if peer != self.peer
        }
        if self.transferee not in self._log.history.last.voters:
            self.transferee = None

    def commit(self) -> bool:
        """Commit the entries that are durable at a majority of the voters. Returns whether the commit index rose.

        Counting applies only to entries of this term, and commits all entries before them: a later leader may replace
        an entry of an earlier term although a majority has it (5.4.2, figure 8).
        """
        if self._log.committed == self._log.last_index:
            return False
        index = int(agreed_by_all(self._log.quorums, self._match))
        return self._countable(index) and self._log.commit(index)

    def _countable(self, index: int) -> bool:
        return self._log.term(index) == self.term

    def _match(self, voter: str) -> int:
        # The leader itself is a voter like the others: its entries count once they are durable. A former voter that
        # the last change has removed gets no more entries.
        if voter == self.peer:
            return self._log.stable
        progress = self._peers.get(voter)
        return progress.match if progress else 0

    @property
    def deposed(self) -> bool:
        """Whether the committed configuration has this leader no longer as a voter (thesis 4.2.2)."""
        history = self._log.history
        return self.peer not in history.last.voters and self._log.committed >= history.last_index

    # Time

    def tick(self, now_ms: float) -> bool:
        """Act on the timeouts that have passed. Returns False if the leader must step down: it has not heard a majority
        of the voters for an election timeout."""
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
        """Whether the leader has heard this peer within the shortest election timeout; a new leader assumes it has."""
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
        """Bring a voter up to date, take no proposals meanwhile, and let it stand for election (thesis 3.10).

        The leader gives up after an election timeout. Raises `Rejected` if `peer` is not another voter.
        """
        if peer == self.peer or peer not in self._log.history.last.voters:
            raise Rejected(f"{peer} is not another voter, so it cannot lead")
        self.transferee = peer
        self._hand_over_until_ms = now_ms + self._settings.election_ms[1]
        self._hand_over_due = True

    # Tickets

    def confirm(self, ticket: int, at_once: bool = True) -> None:
        """Check that this peer still leads, with a round of heartbeats that begins after this call (section 8).

        One round confirms all tickets that were requested before it. Without `at_once` it is the next round that is
        due.
        """
        self._asked.append(ticket)
        if at_once:
            self.beat()

    def beat(self) -> None:
        """Begin the next round of heartbeats with the next messages; the round after it is due `heartbeat_ms` later."""
        self._beat_due = True

    def confirmed(self) -> tuple[int, ...]:
        """Returns the tickets whose round a majority of the voters has answered; none before an entry of this term is
        committed."""
        if not self._tickets or self._log.committed < self.first_index:
            return ()
        answered = agreed_by_all(self._log.quorums, self._answered)
        found = []
        while self._tickets and self._tickets[0][0] <= answered:
            found.append(self._tickets.popleft()[1])
        return tuple(found)

    # Messages

    def receive(self, message: Message, now_ms: float) -> None:
        """Handle a reply of this term to a HEARTBEAT, an APPEND or a SNAPSHOT."""
        progress = self._peers.get(message.sender)
        if progress is None:
            return
        progress.heard_ms = now_ms
        if message.kind is MessageKind.HEARTBEAT_REPLY:
            progress.round = max(progress.round, message.round)
            progress.answered_heartbeat(self._log.last_index, now_ms, self._settings.snapshot_retry_ms)
        elif message.kind is MessageKind.APPEND_REPLY:
            if message.reject:
                # The follower names its last entry with a term not above the refused one. The leader continues with its
                # own last entry with a term not above that: each answer skips at least one whole term (5.3).
                progress.refused(message.index, self._log.last_of(message.hint, message.log_term))
            else:
                assert message.index <= self._log.last_index, f"{message.sender} holds more than its leader"
                progress.acknowledged(message.index)

    def messages(self, now_ms: float) -> list[Message]:
        """Returns all messages to send now."""
        if self._beat_due:
            self.beat_at_ms = now_ms + self._settings.heartbeat_ms
            if self._asked:
                self._round += 1
                self._tickets.extend((self._round, ticket) for ticket in self._asked)
                self._asked = []
        out: list[Message] = []
        for peer, progress in self._peers.items():
            if self._beat_due:
                # A peer may have entries behind `match` that differ from the leader's: it must not commit them.
                commit = min(progress.match, self._log.committed)
                out.append(self._message(MessageKind.HEARTBEAT, peer, commit=commit, round=self._round))
            self._feed(peer, progress, now_ms, out)
        self._beat_due = False
        if self._hand_over_due and self.transferee and self._peers[self.transferee].match == self._log.last_index:
            self._hand_over_due = False
            out.append(self._message(MessageKind.TIMEOUT_NOW, self.transferee))
        return out

    def farewell(self, now_ms: float) -> list[Message]:
        """Returns the last messages of a removed leader: its commit index, and TIMEOUT_NOW for the next leader."""
        out = self.messages(now_ms)
        heir = max(self._log.history.last.voters, key=self._match)
        return [*out, self._message(MessageKind.TIMEOUT_NOW, heir)]

    def _feed(self, peer: str, progress: Progress, now_ms: float, out: list[Message]) -> None:
        """Add the messages with entries that a peer lacks, as far as its pace allows."""
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
            entries = () if progress.probed else log.portion(progress.next, self._settings.max_append_bytes)
            progress.sent(len(entries), now_ms)
            progress.commit_sent = log.committed
            out.append(Message(MessageKind.APPEND, peer, self.peer, self.term, index, log_term, log.committed, entries))

    def _message(
        self, kind: MessageKind, to: str, commit: int = 0, round: int = 0, snapshot: Snapshot | None = None
    ) -> Message:
        return Message(kind, to, self.peer, self.term, commit=commit, round=round, snapshot=snapshot)

"""One Raft peer: its input is time and messages, its output are batches to write, send and apply.

    follower -- no leader -----> precandidate -- a majority would vote --> candidate -- a majority did --> leader
        ^                             |                                        |                             |
        +--- a leader, a higher term, a refusal, or no majority to be heard ---+-----------------------------+

The paper's numbers in the comments are sections of Ongaro and Ousterhout, "In Search of an Understandable Consensus
Algorithm" (2014, extended version); "thesis" is Ongaro's (2014). Time is monotonic, in milliseconds, from any origin.
"""

from __future__ import annotations

from typing import Literal

from . import follower
from .configuration import Quorums
from .election import Campaign, grants
from .interface import NotLeader, Ready, Rng, Settings
from .leader import Leadership
from .log import Log
from .messages import FROM_LEADER, REPLIES, Change, Configuration, Entry, HardState, Message, MessageKind, Saved

Role = Literal["follower", "precandidate", "candidate", "leader"]

_NOTHING = Ready(None, None, None, (), (), (), (), False)


class Raft:
    """A peer. Its owner calls `tick` when `next_deadline_ms` is reached and `step` for each message. After each call it
    carries out the batches of `ready`, until that is None.
    """

    leadership = Leadership

    def __init__(self, peer: str, saved: Saved, settings: Settings, rng: Rng, now_ms: float) -> None:
        self.peer = peer
        self.role: Role = "follower"
        self.leader: str | None = None
        self._settings = settings
        self._rng = rng
        self._now_ms = now_ms
        self._log = Log(saved)
        self._hard = saved.hard  # the state on disk
        self._term = saved.hard.term
        self._vote = saved.hard.vote
        self._campaigning: Campaign | None = None
        self._leading: Leadership | None = None
        self._heard_ms = now_ms  # when `leader` was heard last
        self._election_at_ms = 0.0
        self._outbox: list[Message] = []
        self._taken: Ready | None = None
        self._rearm()
        if self.configuration.voters == (peer,):
            self._election_at_ms = now_ms  # there is no other voter to wait for

    # State

    @property
    def term(self) -> int:
        """The latest term that this peer has seen."""
        return self._term

    @property
    def configuration(self) -> Configuration:
        """The configuration in force for this peer: the last one in its log, committed or not."""
        return self._log.history.last

    @property
    def quorums(self) -> Quorums:
        """The sets of voters that must agree, a majority of each. The first set is the voters of `configuration`."""
        return self._log.quorums

    @property
    def commit_index(self) -> int:
        """All entries up to this one are committed."""
        return self._log.committed

    @property
    def applied_index(self) -> int:
        """All entries up to this one were applied, according to `advance`."""
        return self._log.applied

    @property
    def last_index(self) -> int:
        """The last entry of the log."""
        return self._log.last_index

    @property
    def next_deadline_ms(self) -> float:
        """When the next `tick` is due, on the clock of `tick`."""
        return self._leading.beat_at_ms if self._leading else self._election_at_ms

    @property
    def handing_over(self) -> bool:
        """Whether this peer transfers its leadership: it takes no proposals until the transfer succeeds or fails."""
        return self._leading is not None and self._leading.transferee is not None

    @property
    def up_to_date(self) -> bool:
        """For a leader: whether it has applied all entries that were committed before its term."""
        return self._leading is not None and self._log.applied >= self._leading.first_index

    def unapplied(self) -> tuple[Entry, ...]:
        """The entries of the log that this peer has not applied, committed or not."""
        return self._log.slice(max(self._log.applied, self._log.base) + 1, self._log.last_index)

    def answers(self, peer: str) -> bool:
        """For a leader: whether a message arrived from this peer within the shortest election timeout."""
        return self._leading is not None and self._leading.answers(peer, self._now_ms)

    def caught_up(self, peer: str) -> bool:
        """For a leader: whether this peer answers and lacks only a few entries (`Settings.caught_up`)."""
        return self._leading is not None and self._leading.caught_up(peer, self._now_ms)

    # Calls of the owner

    def propose(self, data: bytes) -> int:
        """Append a command for the state machine. Returns its index; another leader may replace the entry.

        Raises `NotLeader`, also while leadership is being transferred.
        """
        return self._lead_on().propose(data)

    def change(self, change: Change) -> int:
        """Change the configuration; it is in force at once. Returns the index of the entry.

        Raises `NotLeader`, `ChangePending`, and `Rejected`: only a learner that has caught up can become a voter, and
        the last voter stays one.
        """
        return self._lead_on().change(change, self._now_ms)

    def confirm(self, ticket: int, at_once: bool = True) -> None:
        """Check that this peer still leads.

        The ticket is in `Ready.confirmed` once a majority of voters has answered a heartbeat sent after this call; it
        is dropped if leadership ends. Without `at_once` the ticket waits for the next heartbeat that is due, and causes
        no message of its own. Raises `NotLeader`.
        """
        if self._leading is None:
            raise NotLeader(self.leader)
        self._leading.confirm(ticket, at_once)

    def beat(self) -> None:
        """For a leader: send the next heartbeats now, not when they are due."""
        if self._leading is not None:
            self._leading.beat()

    def transfer(self, peer: str) -> None:
        """Transfer leadership to another voter; this peer takes no proposals meanwhile.

        If the voter does not lead within an election timeout, this peer continues to lead. Raises `NotLeader`, and
        `Rejected` if `peer` is not another voter.
        """
        self._lead_on().transfer(peer, self._now_ms)

    def _lead_on(self) -> Leadership:
        if self._leading is None:
            raise NotLeader(self.leader)
        if self._leading.transferee is not None:
            raise NotLeader(None)
        return self._leading

    def compact(self, index: int, data: bytes) -> None:
        """The owner has made a snapshot of the state machine after entry `index`: drop older entries except a tail."""
        self._log.compact(index, data, self._settings.tail)

    # Time and messages

    def tick(self, now_ms: float) -> None:
        """Act on the timeouts that have passed: send heartbeats, stand for election, or stop leading."""
        self._now_ms = now_ms
        if self._leading is not None:
            if not self._leading.tick(now_ms):
                self._follow(self._term, None)
        elif now_ms >= self._election_at_ms:
            if self._may_stand:
                self._campaign(trial=True)
            else:
                self.leader = None
                self._rearm()

    def step(self, message: Message, now_ms: float) -> None:
        """Handle a message. Late, repeated and reordered messages, and messages of unknown peers, do no harm.

        Raises `Contradicted`.
        """
        self._now_ms = now_ms
        kind, term = message.kind, message.term
        if message.to != self.peer or message.sender == self.peer:
            return  # for another disk of this node
        if kind in REPLIES and message.sender not in self.configuration.peers:
            return  # ignore replies of a removed peer; requests count: the local log may be too old to name the sender
        if kind is MessageKind.PREVOTE or kind is MessageKind.VOTE:
            self._asked_for_vote(message)
            return
        promise = kind is MessageKind.PREVOTE_REPLY and not message.reject  # about a term that no peer has entered
        if term > self._term and not promise:
            self._follow(term, None)
        if kind in FROM_LEADER:
            if term < self._term:
                # Answer, so that the sender learns the higher term and stops leading. Else this peer could neither
                # follow it nor win an election (thesis 9.6).
                self._outbox.append(Message(MessageKind.APPEND_REPLY, message.sender, self.peer, self._term))
            else:
                self._obey(message)
        elif kind is MessageKind.PREVOTE_REPLY or kind is MessageKind.VOTE_REPLY:
            self._count(message)
        elif term == self._term and self._leading is not None:
            self._leading.receive(message, now_ms)
            self._commit()

    def _obey(self, message: Message) -> None:
        """Handle a message of the leader of this term."""
        assert self._leading is None, f"two leaders of term {self._term}: {self.peer} and {message.sender}"
        if self.role != "follower" or self.leader != message.sender:
            self._follow(self._term, message.sender)
        self._heard_ms = self._now_ms
        self._rearm()
        kind = message.kind
        if kind is MessageKind.APPEND:
            self._outbox.append(follower.append(self._log, message))
        elif kind is MessageKind.HEARTBEAT:
            self._supersede(follower.beat(self._log, message))
        elif kind is MessageKind.SNAPSHOT:
            self._outbox.append(follower.install(self._log, message))
        elif self._may_stand:
            self._campaign(trial=False, force=True)

    # Elections

    def _asked_for_vote(self, message: Message) -> None:
        trial = message.kind is MessageKind.PREVOTE
        if message.term > self._term:
            if self._has_leader and not message.force:
                return  # a peer that cannot hear the leader must not depose it (section 6; thesis 4.2.3)
            if not trial:
                self._follow(message.term, None)
        granted = message.term >= self._term and grants(message, self._term, self._vote, self.leader, self._log)
        if granted and not trial and self._vote != message.sender:
            self._vote = message.sender
            self._follow(self._term, None)
        kind = MessageKind.PREVOTE_REPLY if trial else MessageKind.VOTE_REPLY
        term = message.term if granted else self._term
        self._supersede(Message(kind, message.sender, self.peer, term, reject=not granted))

    @property
    def _has_leader(self) -> bool:
        """Whether this peer leads or has heard the leader within the shortest election timeout."""
        heard_lately = self._now_ms - self._heard_ms < self._settings.election_ms[0]
        return self._leading is not None or (self.leader is not None and heard_lately)

    @property
    def _may_stand(self) -> bool:
        """Whether this peer is a voter, or was one until an entry that it does not know to be committed.

        In the second case its log may be the only one with that entry, so that no other peer can be elected. Then this
        peer leads without a vote of its own (thesis 4.2.2).
        """
        history = self._log.history
        return self.peer in history.last.voters or self.peer in history.at(self._log.committed).voters

    def _campaign(self, trial: bool, force: bool = False) -> None:
        """Stand for election; with `trial`, first ask the voters whether this peer could win (thesis 9.6)."""
        if not trial:
            self._term += 1
            self._vote = self.peer
        self.role = "precandidate" if trial else "candidate"
        self.leader = None
        self._rearm()
        campaign = Campaign(self._term + trial, trial, self._log.quorums)
        self._campaigning = campaign
        self._outbox = [kept for kept in self._outbox if kept.kind not in (MessageKind.PREVOTE, MessageKind.VOTE)]
        self._outbox += campaign.requests(self.peer, self._log, force)
        campaign.answer(self.peer, True)
        self._decide(campaign)

    def _count(self, message: Message) -> None:
        """An answer to PREVOTE or VOTE counts only in the campaign that asked for it."""
        campaign = self._campaigning
        if campaign is None or campaign.trial != (message.kind is MessageKind.PREVOTE_REPLY):
            return
        if message.term == (self._term if message.reject else campaign.term):
            campaign.answer(message.sender, not message.reject)
            self._decide(campaign)

    def _decide(self, campaign: Campaign) -> None:
        if campaign.won:
            if campaign.trial:
                self._campaign(trial=False)
            else:
                self._lead()
        elif campaign.lost:
            self._follow(self._term, None)

    def _lead(self) -> None:
        self.role = "leader"
        self.leader = self.peer
        self._campaigning = None
        self._leading = self.leadership(self.peer, self._term, self._log, self._settings, self._now_ms)

    def _follow(self, term: int, leader: str | None) -> None:
        """Become a follower in this term, the present or a later one."""
        assert term >= self._term, (term, self._term)
        if term > self._term:
            self._term = term
            self._vote = ""
        self.role = "follower"
        self.leader = leader
        self._campaigning = None
        self._leading = None
        self._rearm()

    def _rearm(self) -> None:
        self._election_at_ms = self._now_ms + self._rng.uniform(*self._settings.election_ms)

    # Batches

    def ready(self) -> Ready | None:
        """Returns the next batch, for the owner to carry out; None if it is empty or the last batch is not done."""
        if self._taken is not None:
            return None
        log, leading = self._log, self._leading
        if leading is not None:
            self._outbox += leading.messages(self._now_ms)
        known = self._hard
        promised = self._term != known.term or self._vote != known.vote
        hard = HardState(self._term, self._vote, log.committed) if promised or log.committed != known.commit else None
        snapshot, compacted, entries, committed = (
            log.pending_snapshot, log.pending_compaction, log.unstable(), log.to_apply(),
        )  # fmt: skip
        confirmed = leading.confirmed() if leading is not None and snapshot is None else ()
        if not (self._outbox or hard or entries or committed or confirmed or snapshot or compacted):
            return None
        sync = promised or bool(entries) or snapshot is not None
        ready = Ready(hard, snapshot, compacted, entries, tuple(self._outbox), committed, confirmed, sync)
        self._hard = hard or known
        self._outbox = []
        log.pending_compaction = None
        self._taken = ready
        return ready

    def advance(self, ready: Ready) -> None:
        """The owner has done the batch: its writes are durable, its messages sent, its committed entries applied."""
        assert ready is self._taken, "not the batch that was taken last"
        self._taken = None
        if ready.snapshot is not None:
            self._log.restored(ready.snapshot)
        if ready.entries:
            self._log.written(ready.entries[-1])
        if ready.committed:
            self._log.applied = ready.committed[-1].index
        self._commit()

    def _commit(self) -> None:
        """Commit the entries that a majority has. A leader that is no voter afterwards stops leading (thesis 4.2.2)."""
        leading = self._leading
        if leading is not None:
            leading.commit()
            if leading.deposed:
                self._outbox += leading.farewell(self._now_ms)
                self._follow(self._term, None)

    def _supersede(self, message: Message) -> None:
        """Replace a waiting message of the same kind to the same peer: with a slow disk, they would pile up."""
        self._outbox = [kept for kept in self._outbox if (kept.kind, kept.to) != (message.kind, message.to)]
        self._outbox.append(message)

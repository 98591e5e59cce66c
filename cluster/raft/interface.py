"""The interface of a Raft peer: settings, source of randomness, the batch of work that it returns, errors."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from .messages import Entry, HardState, Message, Snapshot


class Rng(Protocol):
    """Source of randomness; `random.Random` implements it."""

    def uniform(self, a: float, b: float) -> float:
        """Returns a random number between a and b. The peer calls it for each election timeout."""


class Settings(Struct, frozen=True):
    """Times and limits of Raft. All times in milliseconds, the same on all nodes of a cluster.

    `election_ms`: a follower that hears no leader for a random time in this range stands for election. A follower that
    heard its leader within the lower bound ignores other candidates. A leader that has not heard a majority of the
    voters for the upper bound steps down. `heartbeat_ms` should be a fraction of the lower bound, so that the loss of
    two heartbeats causes no election. `max_append_bytes` bounds the data of one APPEND (one entry may be larger), so
    that a slow link is not silent for long; `max_inflight` bounds the unanswered APPENDs to one peer. A snapshot
    without an acknowledgement is sent again after `snapshot_retry_ms`. `tail`: entries before a snapshot that stay in
    memory, so that a slow peer does not need the snapshot. A learner that lacks at most `caught_up` entries may become
    a voter. `snapshot_every`: entries applied between two snapshots of the state machine.
    """

    election_ms: tuple[float, float] = (500, 800)
    heartbeat_ms: float = 150
    max_append_bytes: int = 16384
    max_inflight: int = 64
    snapshot_retry_ms: float = 3000
    tail: int = 256
    caught_up: int = 64
    snapshot_every: int = 1000


class Ready(Struct, frozen=True):
    """One batch of work. The owner does these steps in order and then calls `Raft.advance`.

    1. Write `hard`, `snapshot`, `compacted` and `entries` in one batch. `entries` replace all entries from the index of
       the first one on. `snapshot` was received from a leader: it replaces the whole log, and the state machine must
       restore it before it applies later entries. `compacted` is this peer's own snapshot: it replaces the log up to
       its index and is not restored.
    2. If `sync`, wait until the write is durable. Otherwise only the commit index changed, and its loss does no harm.
    3. Send `messages`, never earlier: they acknowledge entries or votes in this write.
    4. Apply `committed` in order. Then the tickets in `confirmed` are valid (`Raft.confirm`): all entries that were
       committed when a ticket was requested have been applied.
    """

    hard: HardState | None
    snapshot: Snapshot | None
    compacted: Snapshot | None
    entries: tuple[Entry, ...]
    messages: tuple[Message, ...]
    committed: tuple[Entry, ...]
    confirmed: tuple[int, ...]
    sync: bool


class Contradicted(Exception):
    """A leader has another entry at an index that is committed here, so the logs of the cluster have diverged.

    A voter has lost entries or votes, because its disk is an old copy. This peer must stop: it has applied entries that
    the other peers do not have.
    """


class Forgotten(Contradicted):
    """This peer had acknowledged entries that its log lacks, so its disk is an old copy. It may have forgotten votes,
    too, so it must not vote with this disk again."""


class NotLeader(Exception):
    """This peer does not lead, or is transferring its leadership. `leader`: the peer that leads, if known."""

    def __init__(self, leader: str | None) -> None:
        super().__init__(f"not the leader; the leader is {leader or 'not known'}")
        self.leader = leader


class ChangePending(Exception):
    """The configuration cannot change yet: a change is uncommitted, or this leader has committed nothing so far."""


class Rejected(Exception):
    """A change or transfer is not possible in the present configuration. The text is the reason."""

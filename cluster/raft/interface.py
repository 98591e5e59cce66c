"""What a Raft peer is handed and what it hands back: settings, the port of chance, one batch of work, and refusals."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from .messages import Entry, HardState, Message, Snapshot


class Rng(Protocol):
    """Where chance comes from: `random.Random` has it."""

    def uniform(self, a: float, b: float) -> float:
        """A number between a and b."""


class Settings(Struct, frozen=True):
    """The numbers of a cluster. All times in milliseconds, the same on all of its nodes.

    `election_ms`: a follower that hears no leader for a random time in this range stands for election; one that heard
    its leader within the lower bound ignores other candidates; a leader that has not heard a majority of the voters
    for the upper bound steps down. `heartbeat_ms` should be a fraction of the lower bound, so that losing two of them
    elects nobody. `max_append_bytes` bounds the data of one APPEND (one entry may be larger), `max_inflight` the
    APPENDs on their way to one peer. A snapshot that nobody acknowledged is sent again after `snapshot_retry_ms`.
    `tail` entries stay in memory behind a snapshot, so that a slow peer needs only these; a learner that lacks at most
    `caught_up` entries may vote. `snapshot_every`: entries applied between two snapshots of the state machine.
    """

    election_ms: tuple[float, float] = (500, 800)
    heartbeat_ms: float = 150
    max_append_bytes: int = 1 << 20
    max_inflight: int = 64
    snapshot_retry_ms: float = 3000
    tail: int = 256
    caught_up: int = 64
    snapshot_every: int = 1000


class Ready(Struct, frozen=True):
    """One batch, to be done in the order of its fields; then `Raft.advance`.

    1. Write `hard`, `snapshot`, `compacted` and `entries` in one go. `entries` replace everything from the first one's
       index on. `snapshot` was received: it replaces the whole log and has to be restored by the state machine before
       anything later. `compacted` is this peer's own snapshot: it replaces the log up to its index and is not restored.
    2. If `sync`, wait until that is durable. Otherwise only the commit index changed, and losing it costs nothing.
    3. Send `messages`: never before, they promise what was written.
    4. Apply `committed` in order; then `confirmed` are the tickets of `Raft.confirm` that hold: everything that was
       committed when the ticket was asked for has been applied.
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
    """A leader has another entry where one is committed here: a voter has forgotten what it had promised (its disk is
    an old copy), and the peers have parted. This peer must not go on: what it has applied is not what the others have.
    """


class NotLeader(Exception):
    """Asked of a peer that does not lead, or that is handing its leadership over. `leader`: whom to ask, if known."""

    def __init__(self, leader: str | None) -> None:
        super().__init__(f"not the leader; the leader is {leader or 'not known'}")
        self.leader = leader


class ChangePending(Exception):
    """The configuration cannot change yet: a change is uncommitted, or this leader has committed nothing so far."""


class Rejected(Exception):
    """A change or transfer that makes no sense in the present configuration; the text says why."""

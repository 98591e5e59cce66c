"""The data of Raft: entries, changes of the configuration, durable state, and the messages between peers.

All types are sent or stored as msgspec arrays: a field may be added at the end with a default, none may be moved.
One `Message` type serves all kinds; the table of `MessageKind` has the meaning of its fields for each kind.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

Natural = Annotated[int, Meta(ge=0)]


class MalformedMessage(Exception):
    """Bytes are not a message, change or saved state of Raft. The text names the error and its place."""


class Kind(IntEnum):
    """The kind of an entry's data."""

    COMMAND = 0  # the state machine's
    CHANGE = 1  # an encoded `Change` of the configuration
    EMPTY = 2  # the first entry of a leader's term (section 8)


class Entry(Struct, array_like=True, frozen=True, gc=False):
    """One entry of the log. Index and term begin at 1; `kind` is a `Kind`."""

    index: Annotated[int, Meta(ge=1)]
    term: Annotated[int, Meta(ge=1)]
    kind: Annotated[int, Meta(ge=0, le=2)]
    data: bytes


class Change(Struct, array_like=True, frozen=True):
    """A change of one peer in the configuration: to learner, to voter, or its removal (thesis 4.1).

    `also` are changes of other peers in the same entry. Such an entry needs two majorities (thesis 4.3).
    """

    action: Literal["learner", "voter", "remove"]
    peer: Annotated[str, Meta(min_length=1)]
    also: tuple[Change, ...] = ()

    @property
    def steps(self) -> tuple[Change, ...]:
        """This change and the others of its entry."""
        return (self, *self.also)


class Configuration(Struct, array_like=True, frozen=True):
    """The peers: voters elect leaders and commit entries, learners only get the log. Both are sorted.

    `former`: the voters before, if the entry that made this configuration changed several peers, else (). Until that
    entry is committed, a decision needs a majority of `voters` and a majority of `former`.
    """

    voters: tuple[str, ...] = ()
    learners: tuple[str, ...] = ()
    former: tuple[str, ...] = ()

    @property
    def peers(self) -> tuple[str, ...]:
        """Voters and learners."""
        return self.voters + self.learners


class HardState(Struct, array_like=True, frozen=True, gc=False):
    """The durable state besides the log (figure 2). `vote` is "" if the peer has not voted in this term."""

    term: Natural = 0
    vote: str = ""
    commit: Natural = 0


class Snapshot(Struct, array_like=True, frozen=True):
    """The state machine after the entry at `index`, and the configuration in force there (section 7)."""

    index: Annotated[int, Meta(ge=1)]
    term: Annotated[int, Meta(ge=1)]
    configuration: Configuration
    data: bytes


class Saved(Struct):
    """The state that a restart reads. Entries at or below the snapshot's index are allowed and ignored."""

    hard: HardState = HardState()
    snapshot: Snapshot | None = None
    entries: list[Entry] = field(default_factory=list)


def empty() -> Saved:
    """Returns the state of a new peer without a configuration: it waits for messages of a leader."""
    return Saved()


def bootstrap(peer: str) -> Saved:
    """Returns the state of the first voter of a new cluster: a log with one committed entry that makes it a voter."""
    first = Entry(1, 1, Kind.CHANGE, encode_change(Change("voter", peer)))
    return Saved(HardState(1, "", 1), None, [first])


class MessageKind(IntEnum):
    """The kinds of a `Message` and the fields they use besides `to`, `sender` and `term`.

    ================  ==========================================================================================
    PREVOTE           `term` of the planned election; `index`, `log_term` of the sender's last entry (thesis 9.6)
    PREVOTE_REPLY     granted: `term` of the request; or `reject`: the sender's own term
    VOTE              `index`, `log_term` of the sender's last entry; `force` after TIMEOUT_NOW (5.2)
    VOTE_REPLY        `reject`
    APPEND            `index`, `log_term` of the entry before `entries`; `commit` (5.3)
    APPEND_REPLY      `index` up to which the logs agree; or `reject`, the `index` that did not match, and
                      `hint`, `log_term`: the last entry of the follower that the leader may hold as well
    HEARTBEAT         `commit`; `round`, which the reply repeats (section 8)
    HEARTBEAT_REPLY   `round`
    SNAPSHOT          `snapshot`; answered by APPEND_REPLY (section 7)
    TIMEOUT_NOW       stand for election at once: the leader transfers its leadership (thesis 3.10)
    ================  ==========================================================================================
    """

    PREVOTE = 0
    PREVOTE_REPLY = 1
    VOTE = 2
    VOTE_REPLY = 3
    APPEND = 4
    APPEND_REPLY = 5
    HEARTBEAT = 6
    HEARTBEAT_REPLY = 7
    SNAPSHOT = 8
    TIMEOUT_NOW = 9


FROM_LEADER = (MessageKind.APPEND, MessageKind.HEARTBEAT, MessageKind.SNAPSHOT, MessageKind.TIMEOUT_NOW)
REPLIES = (
    MessageKind.PREVOTE_REPLY,
    MessageKind.VOTE_REPLY,
    MessageKind.APPEND_REPLY,
    MessageKind.HEARTBEAT_REPLY,
)


class Message(Struct, array_like=True, frozen=True):
    """One message between two peers; see `MessageKind` for the fields."""

    kind: MessageKind
    to: str
    sender: str
    term: Natural
    index: Natural = 0
    log_term: Natural = 0
    commit: Natural = 0
    entries: tuple[Entry, ...] = ()
    reject: bool = False
    hint: Natural = 0
    round: Natural = 0
    snapshot: Snapshot | None = None
    force: bool = False


_encoder = msgspec.msgpack.Encoder()
_messages = msgspec.msgpack.Decoder(Message)
_changes = msgspec.msgpack.Decoder(Change)


def encode_message(message: Message) -> bytes:
    """Returns the bytes of a message."""
    return _encoder.encode(message)


def decode_message(data: bytes) -> Message:
    """Decode a message. Raises `MalformedMessage`, also for impossible contents."""
    try:
        message = _messages.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMessage(f"not a Raft message: {error}") from error
    if (message.kind is MessageKind.SNAPSHOT) != (message.snapshot is not None):
        raise MalformedMessage(f"only SNAPSHOT has a snapshot, and always: {message.kind.name}")
    last, term = message.index, message.log_term
    for entry in message.entries:
        if entry.index != last + 1 or not term <= entry.term <= message.term:
            where = f"entry {entry.index} of term {entry.term} behind entry {last} of term {term}"
            raise MalformedMessage(f"{where} in {message.kind.name} of term {message.term}")
        if entry.kind == Kind.CHANGE:
            decode_change(entry.data)
        last, term = entry.index, entry.term
    return message


def encode_change(change: Change) -> bytes:
    """Returns the data of a CHANGE entry."""
    return _encoder.encode(change)


def decode_change(data: bytes) -> Change:
    """Decode the change in a CHANGE entry. Raises `MalformedMessage`."""
    try:
        change = _changes.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMessage(f"not a change of the configuration: {error}") from error
    if any(step.also for step in change.also):
        raise MalformedMessage(f"not a change of the configuration: one of {change.also[0].peer:.100} names others")
    return change

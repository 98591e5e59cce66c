"""A follower's side of AppendEntries and InstallSnapshot (5.3, 7).

The functions change the log and return the answer; the owner sends it once the log is durable. They raise
`Contradicted` if the leader of this term lacks an entry that is committed here, and `Forgotten` if this log lacks an
entry that the leader has an acknowledgement for. Raft rules that out (5.4.3), unless a peer has lost durable state.
"""

from __future__ import annotations

from .interface import Contradicted, Forgotten
from .log import Log
from .messages import Message, MessageKind


def append(log: Log, message: Message) -> Message:
    """Take the entries of an APPEND if the log has the entry before them; else answer where the logs may agree."""
    _compare(log, message.sender, message.index, message.log_term)
    for entry in message.entries:
        _compare(log, message.sender, entry.index, entry.term)
    if message.index < log.committed:
        # An old message: committed entries agree with every leader's log, also those that were compacted.
        return _agreed(message, log.committed)
    if log.term(message.index) != message.log_term:
        hint = log.last_of(message.index, message.log_term)
        return Message(
            MessageKind.APPEND_REPLY,
            message.sender,
            message.to,
            message.term,
            index=message.index,
            log_term=log.term(hint) or 0,
            reject=True,
            hint=hint,
        )
    log.merge(message.entries)
    last = message.index + len(message.entries)
    # Commit only up to the last entry of this message: later entries of this log may differ from the leader's.
    log.commit(min(message.commit, last))
    return _agreed(message, last)


def install(log: Log, message: Message) -> Message:
    """Take a snapshot, unless the log already has its entries."""
    snapshot = message.snapshot
    assert snapshot is not None
    _compare(log, message.sender, snapshot.index, snapshot.term)
    if snapshot.index > log.committed:
        if log.term(snapshot.index) == snapshot.term:
            log.commit(snapshot.index)  # the log has these entries: keep it (figure 13, step 6)
        else:
            log.restore(snapshot)
    return _agreed(message, log.committed)


def beat(log: Log, message: Message) -> Message:
    """Take the commit index of a HEARTBEAT; the leader limits it to entries that this peer has acknowledged to it, so
    they are in a log that has lost nothing."""
    if message.commit > log.last_index:
        known = f"{message.sender} has an acknowledgement of entry {message.commit}"
        raise Forgotten(f"{known}, and the log of this disk ends with entry {log.last_index}")
    log.commit(message.commit)
    return Message(MessageKind.HEARTBEAT_REPLY, message.sender, message.to, message.term, round=message.round)


def _compare(log: Log, sender: str, index: int, term: int) -> None:
    """Raise `Contradicted` if the leader's entry differs from a committed one. Compacted entries cannot be compared."""
    known = log.term(index) if index <= log.committed else None
    if known is not None and known != term:
        raise Contradicted(f"entry {index} is committed here with term {known}, and {sender} has it with term {term}")


def _agreed(message: Message, index: int) -> Message:
    return Message(MessageKind.APPEND_REPLY, message.sender, message.to, message.term, index=index)

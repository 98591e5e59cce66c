"""A follower's side of AppendEntries and InstallSnapshot (5.3, 7).

The functions change the log and return the answer, which may leave once the log is durable. They raise `Contradicted`
if the leader of this term lacks an entry that is committed here, which is impossible in one history (5.4.3).
"""

from __future__ import annotations

from .interface import Contradicted
from .log import Log
from .messages import Message, MessageKind


def append(log: Log, message: Message) -> Message:
    """Take the entries of an APPEND if the one before them is here, or say where the logs may agree."""
    _compare(log, message.sender, message.index, message.log_term)
    for entry in message.entries:
        _compare(log, message.sender, entry.index, entry.term)
    if message.index < log.committed:
        # Old: committed entries agree with every leader's log. (This also covers entries that are compacted.)
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
    # Only up to the last entry of this message: later entries of the log may contradict the leader's.
    log.commit(min(message.commit, last))
    return _agreed(message, last)


def install(log: Log, message: Message) -> Message:
    """Take a snapshot, unless the log holds all that it does."""
    snapshot = message.snapshot
    assert snapshot is not None
    _compare(log, message.sender, snapshot.index, snapshot.term)
    if snapshot.index > log.committed:
        if log.term(snapshot.index) == snapshot.term:
            log.commit(snapshot.index)  # nothing to throw away: the entries are here (figure 13, step 6)
        else:
            log.restore(snapshot)
    return _agreed(message, log.committed)


def beat(log: Log, message: Message) -> Message:
    """Take the commit index of a HEARTBEAT; the leader limits it to entries that are known to agree."""
    log.commit(message.commit)
    return Message(MessageKind.HEARTBEAT_REPLY, message.sender, message.to, message.term, round=message.round)


def _compare(log: Log, sender: str, index: int, term: int) -> None:
    """What is committed is the same in every leader's log; what is compacted cannot be compared."""
    known = log.term(index) if index <= log.committed else None
    if known is not None and known != term:
        raise Contradicted(f"entry {index} is committed here with term {known}, and {sender} has it with term {term}")


def _agreed(message: Message, index: int) -> Message:
    return Message(MessageKind.APPEND_REPLY, message.sender, message.to, message.term, index=index)

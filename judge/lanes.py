"""What one message is for one session, as the judges of lanes and queues need it.

The judge of messages yields an entry for each session that a message was sent to, or that it is owed to and has not
reached. Entries are then judged by (session, lane): order, and messages that later ones have overtaken. Of what still
waits after that, each session is judged against the depth of its queue.

Both judges take the newest entry first, and remember no more than one. So a lane or a queue may have any length.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .message import Lane
from .rows import NEVER, MessageId, RowId
from .sessions import SessionKey


@dataclass(frozen=True, slots=True)
class Entry:
    """One message for one session. `accepted` is the stamp of its PUBLISH, `acked` that of the answer to that."""

    session: SessionKey
    lane: Lane
    message: MessageId
    accepted: int
    acked: int
    first_sent: int = -1
    """-1 if it was not sent, or as a retained message."""
    last_sent: int = -1
    """-1 if it was not sent."""
    ordered: bool = False
    """The session had a subscription of its own for it: it must arrive in order."""
    lifo: bool = False
    """The queue gives the newest message first, so its order is not judged."""
    owed: bool = False
    """Acknowledged, owed to the session, and without an end."""
    queued: bool = False
    """It entered the session's queue."""
    resumed: int = 0
    """Of what is owed: the stamp of the first resumption after `last_sent`."""
    doubt: int = NEVER
    """The stamp after which rows about the session may be lost."""
    rows: tuple[RowId, ...] = ()
    repeated: int = -1
    """The stamp at which its client published it again, last, without an acknowledgement; -1 if it did not."""

    @property
    def key(self) -> tuple[SessionKey, Lane]:
        """Returns the key by which entries are judged together."""
        return self.session, self.lane


def lane_order(entries: Iterable[Entry]) -> list[Entry]:
    """Returns the entries of one lane in the order in which they are judged: those of queues that give the newest
    message first, then the last accepted first."""
    return sorted(entries, key=lambda each: (each.lifo, each.accepted), reverse=True)


def sending_order(entries: Iterable[Entry]) -> list[Entry]:
    """Returns what one session was sent in the order in which it is judged: what was sent first comes first."""
    return sorted(entries, key=lambda each: (each.first_sent, each.message))


def queue_order(entries: Iterable[Entry]) -> list[Entry]:
    """Returns what waits in one queue in the order in which it is judged: the last acknowledged first."""
    return sorted(entries, key=lambda each: (each.acked, each.message), reverse=True)

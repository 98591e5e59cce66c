"""A7 stranded: a message from before a fault came long after the fault, when newer ones had come already.

A node was back at some time: an incident of it had healed, it had started again, or it had got a lease again, without
which it serves nobody. More than 10 s later a session was first sent a message (`stranded`) that had been accepted
before that time, although it had been sent one that was accepted after it. The node is the one that accepted the
message, or the one that has the session. The number is the time in ms.

MQTT promises no order across lanes, so no promise is broken: A6 judges the order within one. Not judged is what A6 does
not judge, what came within 10 s after any other time when one of the two nodes was back, what came while the fault went
on for one of them, which had no lease from that time on, and a message without an acknowledgement that its client
published again after the fault: no queue need have had it before.
"""

from __future__ import annotations

from typing import Final

from ..findings import Finding, Subject
from ..lanes import Entry
from ..rows import LOGICAL_BITS, ms_of, node_of
from ..world import World

ID = "A7"
KIND = "stranded"
LAG: Final = 10_000 << LOGICAL_BITS
"""How long after a fault a message from before it may come, 10 s."""


class Session:
    """What one session was first sent. It remembers the newest message so far."""

    __slots__ = ("_newest", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._newest: Entry | None = None

    def judge(self, entry: Entry) -> Finding | None:
        """Judge the next entry; the one that was sent first comes first."""
        if entry.first_sent < 0 or not entry.ordered or entry.lifo:
            return None
        newest = self._newest
        if newest is None or entry.accepted > newest.accepted:
            self._newest = entry
            return None
        nodes = _nodes(entry, self._world)
        back = max(self._world.back(node, entry.first_sent) for node in nodes)  # -1: none of them ever was away
        if not max(entry.accepted, entry.repeated) < back < newest.accepted or entry.first_sent - back <= LAG:
            return None
        if any(self._world.partitions.had_none_between(node, back, entry.first_sent) for node in nodes):
            return None
        return _finding(entry, newest, entry.first_sent - back)


def _nodes(entry: Entry, world: World) -> tuple[str, str]:
    """Returns the node that accepted the message, and the one that had the session when it was sent."""
    owner, number = entry.session
    home = world.sessions[owner][number - 1].home_at(entry.first_sent).node if number else node_of(owner)
    return entry.lane[0], home


def _finding(entry: Entry, newest: Entry, late: int) -> Finding:
    node, boot, counter = entry.message
    client, topic = entry.session[0][2], entry.lane[4]
    text = f"stranded: message {counter} of {node} (boot {boot}) on {topic}, for {client}, came {ms_of(late)} ms late"
    subject = Subject.of(*entry.session, entry.message)
    rows = (*entry.rows, *newest.rows)
    return Finding(ID, KIND, "error", subject, entry.first_sent, text, rows, value=ms_of(late))

"""A12 session-amnesia: a client got a new session, although its old one had neither expired nor been ended.

The old session outlives a connection: its CONNACK said so, it was resumed before, it had a message that was safe on a
disk, or the log has the end of its connection and not of itself. A clean session that ended with its node is no such
case, nor is one that the client discards with its CONNECT: another node may have it, and says so later. Nor is one that
another node had ended before a node without a lease resumed it: that node serves by its policy, and knows no better.
The epoch of the session tells that it is the same one. Nor is one that the client had last at a disk that the cluster
had given up before: a node that is cut off does not learn of that. It serves its clients until it is back, and gets an
empty disk then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..findings import Finding, Subject
from ..sessions import Session
from ..world import World

ID = "A12"


def judge(sessions: Iterable[Session], world: World) -> Iterator[Finding]:
    """Judge the sessions of one client. The end of a session may have been in rows that were lost."""
    for session in sessions:
        last = session.home_at(session.seen_last)  # its slot may have gone to another node since
        if session.forgotten and not world.was_given_up(last.node, last.boot, session.seen_last):
            subject = Subject.of(session.owner, session.number)
            text = f"session forgotten: {session.client}"
            sure = world.doubt(session, session.begun) >= session.ended
            yield Finding(ID, "forgotten", "fatal", subject, session.ended, text, tuple(session.rows), sure)

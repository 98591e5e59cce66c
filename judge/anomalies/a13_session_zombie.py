"""A13 session-zombie: a session that had ended was resumed.

A durable session has another epoch than those of the client before. `sess.resume` has an epoch that `sess.end` or
`sess.expire` had before, on any node (`resumed`). What a node did in the last second before a kill, while its
message store took nothing before that, or ever before a loss of power without fsync, may not have come to its disk:
such an end is not judged. Nor is an expiry at a primary that has lost its lease within 2 seconds, if the session is
resumed at a node that has taken the slot over: the primary was cut off, and the copy may lack the expiry. A node
without a lease may answer a CONNECT that came before: it does not know which sessions the next primary has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..findings import Finding, Subject
from ..sessions import Session

ID = "A13"


def judge(sessions: Iterable[Session]) -> Iterator[Finding]:
    """Judge the sessions of one client."""
    for session in sessions:
        if session.revived is not None:
            subject = Subject.of(session.owner, session.number)
            text = f"session came back after its end: {session.client}"
            yield Finding(ID, "resumed", "error", subject, max(session.begun, 0), text, session.revived)

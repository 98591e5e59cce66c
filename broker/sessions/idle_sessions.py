"""Releases sessions that nobody uses: their state stays on disk, and their memory becomes free.

A session is idle while its client is absent and no message arrives for it. An idle session that is needed again is made
from its record, in about 40 us.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from ..environment import Environment
from ..timers import Timer
from .session import Session

STEP = 200
"""Sessions that one turn looks at."""

PAUSE_S = 1
"""Seconds until the next look, if no session could be released: the disk may be slow."""


class IdleSessions:
    """The sessions of a node whose clients are absent, the one that was looked at first in front.

    `released` is called for each session that was released.
    """

    def __init__(self, env: Environment, released: Callable[[Session], None]) -> None:
        self._env = env
        self._released = released
        self._absent: dict[Session, tuple[int, int]] = {}
        self._timer: Timer | None = None
        self._scheduled = False

    def __len__(self) -> int:
        return len(self._absent)

    def add(self, session: Session) -> None:
        """The session has no connection, or was made from its record."""
        if session.durable:
            self._note(session)
            self._start()

    def remove(self, session: Session) -> None:
        """The session has a connection, or has ended."""
        self._absent.pop(session, None)

    def _note(self, session: Session) -> None:
        self._absent.pop(session, None)
        self._absent[session] = self._env.now, session.queue.next_seq

    def _start(self) -> None:
        """Look at the sessions in this turn if there are too many, else when the first one may be idle."""
        options = self._env.options
        if self._scheduled or not self._absent:
            return
        if len(self._absent) > options.idle_sessions:
            self._scheduled = True
            self._env.after_turn(self._step)
        elif self._timer is None or self._timer.callback is None:
            first = next(iter(self._absent.values()))[0]
            self._timer = self._env.timers.at(first + options.idle_session_s * 1000, self._step)

    def _step(self) -> None:
        """Look at the first sessions: release those that are idle, or too many, and put the others at the end."""
        self._scheduled = False
        now, options = self._env.tick(), self._env.options
        looked = released = 0
        for session, (since, next_seq) in list(islice(self._absent.items(), STEP)):
            too_many = len(self._absent) > options.idle_sessions
            if now - since < options.idle_session_s * 1000 and not too_many:
                break
            looked += 1
            if session.releasable and (too_many or session.queue.next_seq == next_seq):
                del self._absent[session]
                session.release()
                self._released(session)
                released += 1
            else:
                self._note(session)
        if looked and not released:
            self._scheduled = True
            self._env.timers.at(now + PAUSE_S * 1000, self._step)
        else:
            self._start()

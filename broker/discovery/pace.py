"""How often a node asks a service that it shares with the other nodes, and how long it waits after a failure."""

from __future__ import annotations

LONGEST_S = 30.0
"""The longest pause after failures, in seconds."""


class Pace:
    """Leaves at least `least_s` seconds between two requests, and twice as long after each failure in a row."""

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self._asked_at: float | None = None
        self._failures = 0

    def wait_s(self, now_s: float) -> float:
        """How long to wait before the next request."""
        if self._asked_at is None:
            return 0.0
        pause = max(self._least_s, min(LONGEST_S, self._least_s * 2.0 ** min(self._failures, 16)))
        return max(0.0, self._asked_at + pause - now_s)

    def asked(self, now_s: float) -> None:
        """A request is over, or begins: the pause counts from the last of both."""
        self._asked_at = now_s

    def failed(self) -> None:
        """The request failed."""
        self._failures += 1

    def succeeded(self) -> None:
        """The request succeeded."""
        self._failures = 0

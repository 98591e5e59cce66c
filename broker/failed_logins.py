"""Counts recent refused logins by user name and address, so that guessing passwords is soon refused.

Counted by user name and address together, so a device with a wrong password holds up nobody else, behind the same
address neither; and whether the user exists or not, so the limit tells nothing about that either. The table is bounded;
when it is full the oldest entry goes.
"""

from __future__ import annotations

WINDOW_MS = 60_000
"""Failures count from the first one for so long."""

REMEMBERED = 10_000
"""Pairs of user name and address that are remembered."""


class FailedLogins:
    """Times are in ms and only grow."""

    def __init__(self) -> None:
        self._failed: dict[int, tuple[int, int]] = {}

    def too_many(self, host: str, user: str, most: int, now: int) -> bool:
        """Whether this name was refused to this address `most` times or more within the window."""
        since, count = self._failed.get(hash((host, user)), (now, 0))
        return count >= most and now - since < WINDOW_MS

    def failed(self, host: str, user: str, now: int) -> None:
        """This name was refused to this address."""
        key = hash((host, user))
        since, count = self._failed.get(key, (now, 0))
        if now - since >= WINDOW_MS:
            since, count = now, 0
        if key not in self._failed and len(self._failed) >= REMEMBERED:
            del self._failed[next(iter(self._failed))]
        self._failed[key] = (since, count + 1)

    def __len__(self) -> int:
        return len(self._failed)

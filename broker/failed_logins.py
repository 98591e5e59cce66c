"""Counts recent refused logins by user name and address, to stop clients that guess passwords.

The key is user name and address together, so a device with a wrong password blocks no other user behind its address.
Unknown users count as well: a client cannot find out by the limit whether a user exists. The table is bounded; when it
is full, the oldest entry is dropped.
"""

from __future__ import annotations

WINDOW_MS = 60_000
"""How long refused logins count, in ms from the first one."""

REMEMBERED = 10_000
"""The largest number of pairs of user name and address in the table."""


class FailedLogins:
    """The refused logins of one node. Times are in ms. A time from before the clock was set back counts as over."""

    def __init__(self) -> None:
        self._failed: dict[int, tuple[int, int]] = {}

    def too_many(self, host: str, user: str, most: int, now: int) -> bool:
        """True if the broker has refused this user at this address `most` times or more within the window."""
        since, count = self._failed.get(hash((host, user)), (now, 0))
        return count >= most and 0 <= now - since < WINDOW_MS

    def failed(self, host: str, user: str, now: int) -> None:
        """Count one more refused login of this user at this address."""
        key = hash((host, user))
        since, count = self._failed.get(key, (now, 0))
        if not 0 <= now - since < WINDOW_MS:
            since, count = now, 0
        if key not in self._failed and len(self._failed) >= REMEMBERED:
            del self._failed[next(iter(self._failed))]
        self._failed[key] = (since, count + 1)

    def __len__(self) -> int:
        return len(self._failed)

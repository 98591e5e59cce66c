"""Log lines about dialers that do not prove that they know the cookie.

The first refusal of a host is logged at once. Further ones are counted, and the next line, a minute later, has their
number. The log and the memory are bounded, even if a host dials very often and from many ports.
"""

from __future__ import annotations

AGAIN_MS = 60_000.0
"""Time after a line about a host in which no further line about it is written, in milliseconds."""

REMEMBERED = 64
"""Number of hosts with lines of their own. The refusals of all others share one line."""

OTHERS = "further hosts"


class Strangers:
    """The refusals of one listener."""

    def __init__(self) -> None:
        self._hosts: dict[str, tuple[float, int]] = {}
        """Host: time of its last log line, in ms, and number of refusals since."""

    def refused(self, peer: str, reason: str, now_ms: float) -> str | None:
        """Returns a line for the log, or None if the log had a line about this host lately. `peer` is HOST:PORT."""
        host = peer.rpartition(":")[0] or peer
        if host not in self._hosts and len(self._hosts) >= REMEMBERED:
            self._forget(now_ms)
            if len(self._hosts) >= REMEMBERED:
                host = OTHERS
        line_ms, since = self._hosts.get(host, (-AGAIN_MS, 0))
        if now_ms - line_ms < AGAIN_MS:
            self._hosts[host] = (line_ms, since + 1)
            return None
        self._hosts[host] = (now_ms, 0)
        more = f" ({since} more since the last line)" if since else ""
        return (
            f"connection of another node from {host} refused: {reason}{more}. If it is no node of this cluster, keep "
            "it away from this port"
        )

    def _forget(self, now_ms: float) -> None:
        self._hosts = {each: told for each, told in self._hosts.items() if now_ms - told[0] < AGAIN_MS}

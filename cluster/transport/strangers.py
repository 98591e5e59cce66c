"""Log lines about dialers that do not prove that they know the cookie.

The first refusal of a host is logged at once. Further ones are counted, and told with the next line, a minute later.

A stranger can dial as often as it likes, from as many ports as there are. The log and the memory are bounded all the
same.
"""

from __future__ import annotations

AGAIN_MS = 60_000.0
"""How long nothing more is said about a host after a line, in milliseconds."""

REMEMBERED = 64
"""So many hosts have lines of their own. The refusals of all others share one."""

OTHERS = "further hosts"


class Strangers:
    """The refusals of one listener."""

    def __init__(self) -> None:
        self._hosts: dict[str, tuple[float, int]] = {}
        """Host: when the last line was written, and how many refusals came since."""

    def refused(self, peer: str, reason: str, now_ms: float) -> str | None:
        """A line for the log, or None if there was one about this host lately. `peer` is HOST:PORT."""
        host = peer.rpartition(":")[0] or peer
        if host not in self._hosts and len(self._hosts) >= REMEMBERED:
            self._forget(now_ms)
            if len(self._hosts) >= REMEMBERED:
                host = OTHERS
        said_ms, since = self._hosts.get(host, (-AGAIN_MS, 0))
        if now_ms - said_ms < AGAIN_MS:
            self._hosts[host] = (said_ms, since + 1)
            return None
        self._hosts[host] = (now_ms, 0)
        more = f" ({since} more since the last line)" if since else ""
        return (
            f"connection of another node from {host} refused: {reason}{more}. If it is no node of this cluster, keep "
            "it away from this port"
        )

    def _forget(self, now_ms: float) -> None:
        self._hosts = {each: told for each, told in self._hosts.items() if now_ms - told[0] < AGAIN_MS}

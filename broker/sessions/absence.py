"""When the will and the expiry of a session are due whose client is absent. Pure, without I/O."""

from __future__ import annotations

import msgspec

from ..queues.records import WillRecord

NEVER = 0xFFFFFFFF
"""The session expiry interval of a session that never expires (MQTT 5.0 section 3.1.2.11.2)."""


class Absence(msgspec.Struct, eq=False):
    """One absence. All times are cluster time in ms; 0 means that nothing is due.

    `excused_until`: the cluster itself has ended the connection, and until then a CONNECT cancels the will, also one
    with Clean Start (H-39). 0 if the client has ended it.

    `doubted`: the gateway of a connection that the client has taken over through another gateway. It may have died, and
    then the will must not be published. The absence lasts for this turn only, and is not on disk.

    `replaced`: a CONNECT has ended the absence before this one, and its CONNACK has not left.

    `untold`: plugins do not know of this absence yet.
    """

    expires_at: int = 0
    will_at: int = 0
    excused_until: int = 0
    doubted: str = ""
    replaced: Replaced | None = None
    untold: bool = False

    @property
    def due_at(self) -> int | None:
        """The earlier one of will and expiry; None if both are unset."""
        return min([when for when in (self.will_at, self.expires_at) if when], default=None)

    def prolonged(self, until: int, doubted: str = "") -> Absence:
        """This absence goes on: nothing is due before `until`."""
        expires_at, will_at = (when and max(when, until) for when in (self.expires_at, self.will_at))
        return Absence(expires_at, will_at, self.excused_until, doubted)


class Replaced(msgspec.Struct):
    """What a CONNECT replaces: expiry interval, will and absence of the session. It counts again if CONNACK never
    leaves (H-19)."""

    expiry_s: int
    will: WillRecord | None
    absence: Absence


def absence(now_ms: int, expiry_s: int, delay_s: int | None, grace_s: int, doubted: str = "") -> Absence:
    """Returns the absence that begins now. `delay_s` is that of the will, None if there is none.

    Session and will wait at least for `grace_s`. The will is due when the session ends at the latest
    [MQTT5-3.1.3-9].
    """
    lasts_s = max(expiry_s, grace_s)
    return Absence(
        0 if expiry_s == NEVER else now_ms + lasts_s * 1000,
        0 if delay_s is None else now_ms + min(max(delay_s, grace_s), lasts_s) * 1000,
        now_ms + grace_s * 1000 if grace_s else 0,
        doubted,
    )

"""The latest CONNECT of a client id that the broker has accepted: one that began before it must not undo it (H-37)."""

from __future__ import annotations

import msgspec

MARGIN_MS = 500
"""How much earlier a CONNECT must have begun to be refused, in ms.

Two nodes do not know exactly which of two CONNECTs began first: the way of an OPEN through the tunnel is not measured,
and while clocks follow the leader they run up to 0.5 % faster or slower, 300 ms in the minute that a plugin may take.
A client that gives a CONNECT up has mostly waited for longer than the margin. A CONNECT that has waited for less is
never refused.
"""

OUTDATED = "this client id has connected again since this CONNECT began"
"""The reason string of the refusal."""


class LatestConnect(msgspec.Struct, frozen=True):
    """Facts of the CONNECT that got a session last. `began`: when the client's node received it, in cluster time in ms;
    0 if that is not known."""

    version: int = 4
    began: int = 0


def is_outdated(now_ms: int, waited_ms: int, began: int) -> bool:
    """True if a CONNECT that has waited so long began before the one of `began`, by more than the margin.

    False if that one seems to begin later than now: another clock has said so, and the two cannot be compared.
    """
    return began <= now_ms and now_ms - waited_ms + MARGIN_MS < began

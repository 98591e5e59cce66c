"""Why a stream is refused or closed, where the one who is told has to do something about it.

A transport carries one text, for people. Programs read what stands in brackets in front of it, and nothing else.
"""

from __future__ import annotations

from enum import StrEnum


class RefusalReason(StrEnum):
    """What the other side can do something about."""

    OLD_COPY = "old copy"
    """This process cannot be the node that it says it is: another one was here since (H-01)."""
    CONTRADICTED = "old copy by the log"
    """The same, and the refuser's log has another start in its place."""
    STALE = "away for too long"
    """Its disk lacks what the others have forgotten since (H-16)."""
    TAKEN_OUT = "taken out"
    """This node was a member, and is none any more."""
    NOT_YET = "not in the log yet"
    """A newer log than the refuser's may have this process as a member."""

    def says(self, text: str) -> str:
        """The reason, as it is sent and logged."""
        return f"[{self}] {text}"


def why(reason: str) -> RefusalReason | None:
    """What stands in front of a reason; None for one that is only text, also from a peer that knows more of them."""
    if not reason.startswith("["):
        return None
    try:
        return RefusalReason(reason[1:].partition("] ")[0])
    except ValueError:
        return None

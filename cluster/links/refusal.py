"""Codes for refusals: the node whose stream is refused acts on them.

A transport carries the reason as one text, for people. Programs read only the code in brackets at its beginning.
"""

from __future__ import annotations

from enum import StrEnum


class RefusalReason(StrEnum):
    """The codes. "This node" in their texts is the node whose stream is refused."""

    OLD_COPY = "old copy"
    """Another process has used this identity since this disk was current: the disk is an old copy (H-01)."""
    CONTRADICTED = "old copy by the log"
    """The same; in addition, the log of the refusing node has another start with this number."""
    STALE = "away for too long"
    """This node was away for too long: the others no longer keep the tombstones that its disk lacks (H-16)."""
    TAKEN_OUT = "taken out"
    """This node was a member and is no longer one."""
    NOT_YET = "not in the log yet"
    """The refusing node may be behind in the log: a newer log may have this process as a member."""

    def says(self, text: str) -> str:
        """Returns the reason with its code, as it is sent and logged."""
        return f"[{self}] {text}"


def why(reason: str) -> RefusalReason | None:
    """Returns the code at the beginning of a reason; None if it has no code, or one that this version lacks."""
    if not reason.startswith("["):
        return None
    try:
        return RefusalReason(reason[1:].partition("] ")[0])
    except ValueError:
        return None

"""Reasons to refuse or close a stream that the other side has to act on.

A transport carries one text, for people. Programs read only the code in brackets at its beginning.
"""

from __future__ import annotations

from enum import StrEnum


class RefusalReason(StrEnum):
    """Codes that the other side acts on."""

    OLD_COPY = "old copy"
    """Another process has used this identity since this disk was current: the disk is an old copy (H-01)."""
    CONTRADICTED = "old copy by the log"
    """The same, and the log of the refusing node has another start in its place."""
    STALE = "away for too long"
    """The others no longer keep the tombstones that its disk lacks (H-16)."""
    TAKEN_OUT = "taken out"
    """This node was a member and is no longer one."""
    NOT_YET = "not in the log yet"
    """The refusing node may be behind in the log: a newer log may have this process as a member."""

    def says(self, text: str) -> str:
        """The text that is sent and logged."""
        return f"[{self}] {text}"


def why(reason: str) -> RefusalReason | None:
    """The code at the beginning of a reason; None if it has none, or one that this version does not know."""
    if not reason.startswith("["):
        return None
    try:
        return RefusalReason(reason[1:].partition("] ")[0])
    except ValueError:
        return None

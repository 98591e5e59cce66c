"""Reports problems found during the simulation: an answer without a waiting message, too many messages in flight, an
error in the log (P9)."""

from __future__ import annotations

from collections.abc import Iterator

from .case import Case


def check(case: Case) -> Iterator[str]:
    """Yield the problems of the history."""
    for text in case.history.problems:
        yield f"wrong: {text}"

"""Problems that were found at once: an answer that no message waits for, too many messages in flight, an error in the
log (P9)."""

from __future__ import annotations

from collections.abc import Iterator

from .case import Case


def check(case: Case) -> Iterator[str]:
    """Pass on the problems of the history."""
    for text in case.history.problems:
        yield f"wrong: {text}"

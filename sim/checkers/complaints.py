"""What is wrong by itself: an answer that no client waits for, a window overrun, an error in the node's log (P9)."""

from __future__ import annotations

from collections.abc import Iterator

from .case import Case


def check(case: Case) -> Iterator[str]:
    """Passes on what was noticed on the way."""
    for text in case.history.problems:
        yield f"wrong: {text}"

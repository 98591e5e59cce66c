"""Acknowledgements of other nodes that prove nothing yet, by node.

Without a lease this node may have left the view, and the others skip its earlier copies (H-14). And a node that follows
a later slot table skips the slots that have left it, so this node must follow that table before it counts the answer:
until then it cannot know which slots the answer is for (H-44). A node that has started again answers with what is on
its disk, before it is in a view again: its former process may have waited for a follower that is the next primary
(H-46).
"""

from __future__ import annotations

from msgspec import Struct


class Answer(Struct):
    """All copies up to `upto` are acknowledged, and those in `early`, by a node that followed the table `index`. It was
    start `boot` of that node."""

    upto: int
    early: list[int]
    index: int
    boot: int = 0


class UnprovenAnswers:
    """The answers that wait. `table` is the index of the slot table that this node follows, and `boots` has the last
    start of each node that was in an applied view."""

    def __init__(self) -> None:
        self.table = 0
        self.boots: dict[str, int] = {}
        self._waiting: dict[str, Answer] = {}

    def counts(self, name: str, upto: int, early: list[int], index: int, leased: bool, boot: int = 0) -> bool:
        """Returns True if an answer counts now; else notes it. Call it for each answer, in the order of arrival."""
        if leased and index <= self.table and boot <= self.boots.get(name, 0) and name not in self._waiting:
            return True
        noted = self._waiting.setdefault(name, Answer(0, [], 0))
        noted.upto = max(noted.upto, upto)
        noted.early += early
        noted.index, noted.boot = max(noted.index, index), max(noted.boot, boot)
        return False

    def proven(self) -> list[tuple[str, Answer]]:
        """The lease is there: take out the answers that count now."""
        due = [
            (name, answer)
            for name, answer in self._waiting.items()
            if answer.index <= self.table and answer.boot <= self.boots.get(name, 0)
        ]
        for name, _ in due:
            del self._waiting[name]
        return due

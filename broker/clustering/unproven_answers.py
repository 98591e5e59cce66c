"""Acknowledgements of other nodes that prove nothing yet, by node.

Without a lease this node may have left the view, and the others skip its earlier copies (H-14). And a node that follows
a later slot table skips the slots that have left it, so this node must follow that table before it counts the answer:
until then it cannot know which slots the answer is for (H-44).
"""

from __future__ import annotations

from msgspec import Struct


class Answer(Struct):
    """All copies up to `upto` are acknowledged, and those in `early`, by a node that followed the table `index`."""

    upto: int
    early: list[int]
    index: int


class UnprovenAnswers:
    """The answers that wait. `table` is the index of the slot table that this node follows."""

    def __init__(self) -> None:
        self.table = 0
        self._waiting: dict[str, Answer] = {}

    def counts(self, name: str, upto: int, early: list[int], index: int, leased: bool) -> bool:
        """Returns True if an answer counts now; else notes it. Call it for each answer, in the order of arrival."""
        if leased and index <= self.table and name not in self._waiting:
            return True
        noted = self._waiting.setdefault(name, Answer(0, [], 0))
        noted.upto = max(noted.upto, upto)
        noted.early += early
        noted.index = max(noted.index, index)
        return False

    def proven(self) -> list[tuple[str, Answer]]:
        """The lease is there: take out the answers that count now."""
        due = [(name, answer) for name, answer in self._waiting.items() if answer.index <= self.table]
        for name, _ in due:
            del self._waiting[name]
        return due

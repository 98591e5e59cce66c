"""Who counts: configurations as the log makes them, one peer at a time, and majorities of them (thesis, chapter 4)."""

from __future__ import annotations

from collections.abc import Sequence

from .interface import Rejected
from .messages import Change, Configuration, Entry, Kind, decode_change


def changed(before: Configuration, change: Change) -> Configuration:
    """The configuration after a change. Total: what is so already stays so.

    One peer at a time means that each majority of the old voters meets each majority of the new ones, so a change is in
    force from the moment it is in the log, committed or not (thesis 4.1).
    """
    voters = [peer for peer in before.voters if peer != change.peer]
    learners = [peer for peer in before.learners if peer != change.peer]
    if change.action == "voter":
        voters.append(change.peer)
    elif change.action == "learner":
        learners.append(change.peer)
    return Configuration(tuple(sorted(voters)), tuple(sorted(learners)))


def check(before: Configuration, change: Change, ready: bool) -> None:
    """Refuse a change that is none, that leaves no voter, or a voter that is not a `ready` learner (review, hole 3)."""
    if change.action == "voter" and change.peer not in before.voters and not ready:
        raise Rejected(f"{change.peer} is not a learner that has caught up with the log, so it cannot vote")
    after = changed(before, change)
    if after == before:
        now = (
            "a voter" if change.peer in before.voters else "a learner" if change.peer in before.learners else "unknown"
        )
        raise Rejected(f"nothing to change: {change.peer} is {now}")
    if not after.voters:
        raise Rejected(f"{change.peer} is the last voter")


def agreed(values: Sequence[float]) -> float:
    """The highest number that a majority has reached; 0 of nobody.

    With n values in descending order that is the one at n // 2: it and all before it are a majority.
    """
    return sorted(values, reverse=True)[len(values) // 2] if values else 0


class History:
    """The configuration at each index of a log that grows, is cut at its end, and is compacted from its beginning.

    `last` is the one in force.
    """

    __slots__ = ("_steps", "last")

    def __init__(self, index: int = 0, configuration: Configuration | None = None) -> None:
        self.last = configuration or Configuration()
        self._steps = [(index, self.last)]

    @property
    def last_index(self) -> int:
        """The index of the entry that made it."""
        return self._steps[-1][0]

    def append(self, entry: Entry) -> None:
        """An entry was appended."""
        if entry.kind == Kind.CHANGE:
            self.last = changed(self.last, decode_change(entry.data))
            self._steps.append((entry.index, self.last))

    def cut(self, index: int) -> None:
        """The entries from `index` on are gone, and the changes in them never were."""
        while self._steps[-1][0] >= index:
            self._steps.pop()
        self.last = self._steps[-1][1]

    def at(self, index: int) -> Configuration:
        """The configuration in force after the entry at `index`."""
        return next(configuration for made, configuration in reversed(self._steps) if made <= index)

    def forget(self, index: int) -> None:
        """Nobody will ask for what was before `index`."""
        while len(self._steps) > 1 and self._steps[1][0] <= index:
            self._steps.pop(0)

"""Configurations, as entries of the log make them, and their majorities (thesis, chapter 4).

An entry that changes one peer is in force from the moment it is in the log, committed or not: each majority of the old
voters overlaps each majority of the new ones (thesis 4.1). This is false if an entry changes several peers. Until a
peer knows that such an entry is committed, it needs a majority of the old voters and one of the new voters for every
decision (joint consensus, thesis 4.3). A peer that lacks a committed entry cannot be elected, so from then on the new
majority is enough, and no second entry is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .interface import Rejected
from .messages import Change, Configuration, Entry, Kind, decode_change


def changed(before: Configuration, change: Change) -> Configuration:
    """Returns the configuration after a change. A change without effect is allowed."""
    voters, learners = set(before.voters), set(before.learners)
    for step in change.steps:
        voters.discard(step.peer)
        learners.discard(step.peer)
        if step.action == "voter":
            voters.add(step.peer)
        elif step.action == "learner":
            learners.add(step.peer)
    former = before.voters if change.also else ()
    return Configuration(tuple(sorted(voters)), tuple(sorted(learners)), former)


def check(before: Configuration, change: Change, ready: Callable[[str], bool]) -> None:
    """Raise `Rejected` for a change without effect, without a remaining voter, or with a new voter that is not a
    learner, or for which `ready(peer)` is False (H-03)."""
    if len({step.peer for step in change.steps}) < len(change.steps) or any(step.also for step in change.also):
        raise Rejected(f"{change.peer}: one entry changes each peer once")
    for step in change.steps:
        if step.action == "voter" and step.peer not in before.voters and not ready(step.peer):
            raise Rejected(f"{step.peer} is not a learner that has caught up with the log, so it cannot vote")
        place = "a voter" if step.peer in before.voters else "a learner" if step.peer in before.learners else "unknown"
        if place == {"voter": "a voter", "learner": "a learner", "remove": "unknown"}[step.action]:
            raise Rejected(f"nothing to change: {step.peer} is {place}")
    if not changed(before, change).voters:
        raise Rejected(f"{change.peer} is the last voter")


def agreed(values: Sequence[float]) -> float:
    """Returns the highest number that a majority has reached; 0 for no values.

    With n values in descending order this is the one at n // 2: that value and all before it are a majority.
    """
    return sorted(values, reverse=True)[len(values) // 2] if values else 0


Quorums = tuple[tuple[str, ...], ...]
"""Sets of voters. A decision needs a majority of each."""


def agreed_by_all(quorums: Quorums, value: Callable[[str], float]) -> float:
    """Returns the highest number that a majority of each set of voters has reached; `value(voter)` is that of one."""
    return min([agreed([value(voter) for voter in voters]) for voters in quorums])


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
        """The index of the entry that made the configuration in force."""
        return self._steps[-1][0]

    def quorums(self, committed: int) -> Quorums:
        """Returns the sets of voters that decide, for a peer that knows entries up to `committed` to be committed."""
        last = self.last
        return (last.voters, last.former) if last.former and committed < self.last_index else (last.voters,)

    def append(self, entry: Entry) -> None:
        """An entry was appended to the log: apply its change, if it has one."""
        if entry.kind == Kind.CHANGE:
            self.last = changed(self.last, decode_change(entry.data))
            self._steps.append((entry.index, self.last))

    def cut(self, index: int) -> None:
        """Remove the entries from `index` on, and undo the changes in them."""
        while self._steps[-1][0] >= index:
            self._steps.pop()
        self.last = self._steps[-1][1]

    def at(self, index: int) -> Configuration:
        """Returns the configuration in force after the entry at `index`."""
        return next(configuration for made, configuration in reversed(self._steps) if made <= index)

    def forget(self, index: int) -> None:
        """Drop the configurations before `index`."""
        while len(self._steps) > 1 and self._steps[1][0] <= index:
            self._steps.pop(0)

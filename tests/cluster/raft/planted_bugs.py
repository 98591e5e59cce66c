"""Variants of Raft with one rule switched off: the walks must find each."""

from __future__ import annotations

import msgspec

from strogoff.cluster.raft.configuration import History, Quorums, agreed
from strogoff.cluster.raft.core import Raft
from strogoff.cluster.raft.election import grants
from strogoff.cluster.raft.interface import Ready, Rng, Settings
from strogoff.cluster.raft.leader import Leadership
from strogoff.cluster.raft.messages import HardState, Message, MessageKind, Saved


class CountsOldTerms(Leadership):
    """Commits an entry of an older term because a majority holds it (figure 8)."""

    def _countable(self, index: int) -> bool:
        return True


class CountsLearners(Leadership):
    """Counts a learner's copy as a voter's, so that a majority of all peers is enough."""

    def commit(self) -> bool:
        index = int(agreed([self._match(peer) for peer in self._log.history.last.peers]))
        return self._log.term(index) == self.term and self._log.commit(index)


class TrustsItself(Leadership):
    """Confirms tickets without a round of heartbeats (section 8)."""

    def confirmed(self) -> tuple[int, ...]:
        found = tuple(ticket for _, ticket in self._tickets)
        self._tickets.clear()
        return found


class OldTermsRaft(Raft):
    leadership = CountsOldTerms


class LearnersRaft(Raft):
    leadership = CountsLearners


class TrustingRaft(Raft):
    leadership = TrustsItself


class ForgetfulRaft(Raft):
    """Does not write its vote to the disk."""

    def ready(self) -> Ready | None:
        ready = super().ready()
        if ready is not None and ready.hard is not None:
            ready = msgspec.structs.replace(ready, hard=HardState(ready.hard.term, "", ready.hard.commit))
            self._taken = ready
        return ready


class TwoVotesRaft(Raft):
    """Votes for every candidate whose log is long enough."""

    def _asked_for_vote(self, message: Message) -> None:
        if message.kind is MessageKind.VOTE and message.term == self._term and self._leading is None:
            granted = grants(message, self._term, "", None, self._log)
            self._supersede(Message(MessageKind.VOTE_REPLY, message.sender, self.peer, self._term, reject=not granted))
            return
        super()._asked_for_vote(message)


class ShortLogRaft(Raft):
    """Votes for a candidate without looking at its log (5.4.1)."""

    def _asked_for_vote(self, message: Message) -> None:
        full = msgspec.structs.replace(message, index=1 << 40, log_term=1 << 40)
        super()._asked_for_vote(full)


class OneMajorityHistory(History):
    """Two peers that change in one entry need no majority of the former voters (thesis 4.3)."""

    __slots__ = ()

    def quorums(self, committed: int) -> Quorums:
        return (self.last.voters,)


class OneMajorityRaft(Raft):
    def __init__(self, peer: str, saved: Saved, settings: Settings, rng: Rng, now_ms: float) -> None:
        super().__init__(peer, saved, settings, rng, now_ms)
        self._log.history.__class__ = OneMajorityHistory


PLANTS: dict[str, tuple[range, type[Raft], bool]] = {
    "learners count": (range(0, 240, 3), LearnersRaft, False),
    "a leader trusts itself": (range(20), TrustingRaft, False),
    "votes are not written": (range(150), ForgetfulRaft, False),
    "two votes in a term": (range(10), TwoVotesRaft, False),
    "votes for a short log": (range(10), ShortLogRaft, False),
    "one majority for two changes": (range(659, 660), OneMajorityRaft, False),
    "messages leave before the writes": (range(200), Raft, True),
}
"""Mistake -> the seeds within which it has to be found, the core that makes it, whether messages leave too early.

Figure 8 needs more chance than a walk has: its plant is found by the figure itself, in test_paper.
"""

"""Elections: when a peer grants its vote, and how a candidate counts votes (5.2, 5.4.1; pre-vote: thesis 9.6)."""

from __future__ import annotations

from .configuration import Quorums
from .log import Log
from .messages import Message, MessageKind


class Campaign:
    """One election or trial of one candidate: asks the voters of its configuration and counts their answers.

    It needs a majority of each set of voters in `quorums`.
    """

    __slots__ = ("answers", "quorums", "term", "trial", "voters")

    def __init__(self, term: int, trial: bool, quorums: Quorums) -> None:
        self.term = term
        self.trial = trial
        self.quorums = quorums
        self.voters = tuple(dict.fromkeys([voter for voters in quorums for voter in voters]))
        self.answers: dict[str, bool] = {}

    def requests(self, peer: str, log: Log, force: bool) -> list[Message]:
        """Returns the requests to the other voters. `force`: the leader asked for this election, so the voters ignore
        that they hear a leader."""
        kind = MessageKind.PREVOTE if self.trial else MessageKind.VOTE
        index, log_term = log.last_index, log.last_term
        return [
            Message(kind, voter, peer, self.term, index=index, log_term=log_term, force=force)
            for voter in self.voters
            if voter != peer
        ]

    def answer(self, voter: str, granted: bool) -> None:
        """Count one voter's first answer. Ignore its later answers, and those of peers that are no voters."""
        if voter in self.voters:
            self.answers.setdefault(voter, granted)

    @property
    def won(self) -> bool:
        """Whether a majority of each set of voters has granted its vote."""
        return all(self._answers(voters, True) > len(voters) // 2 for voters in self.quorums)

    @property
    def lost(self) -> bool:
        """Whether a majority of one of the sets has become impossible."""
        return any(self._answers(voters, False) >= len(voters) - len(voters) // 2 for voters in self.quorums)

    def _answers(self, voters: tuple[str, ...], granted: bool) -> int:
        return sum(self.answers.get(voter) is granted for voter in voters)


def grants(message: Message, term: int, vote: str, leader: str | None, log: Log) -> bool:
    """Whether a peer in `term` with this `vote` and log grants a PREVOTE or VOTE.

    A peer grants one vote in each term, and only to a log that holds at least as much as its own. A PREVOTE is about a
    later term, in which no peer has voted, and binds no peer. A learner answers too: only a candidate that knows it as
    a voter asks it, and it may be the last to learn of its promotion. Its vote is saved like any other.
    """
    free = vote in ("", message.sender) and (leader is None or vote == message.sender)
    if message.kind is MessageKind.PREVOTE and message.term > term:
        free = True
    return free and log.is_behind(message.index, message.log_term)

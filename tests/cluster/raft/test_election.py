"""Votes: which candidates get them, and how many are enough."""

from __future__ import annotations

import pytest

from strogoff.cluster.raft.election import Campaign, grants
from strogoff.cluster.raft.messages import Message, MessageKind

from .test_log import make


def test_a_majority_of_the_voters_wins() -> None:
    campaign = Campaign(2, False, (("a", "b", "c", "d"),))
    for voter in ("a", "b", "b", "x"):
        campaign.answer(voter, True)
    assert not campaign.won and not campaign.lost
    campaign.answer("c", True)
    assert campaign.won


@pytest.mark.parametrize(("voters", "refusals"), [("a", 1), ("ab", 1), ("abc", 2), ("abcd", 2), ("abcde", 3)])
def test_it_is_lost_when_no_majority_is_left(voters: str, refusals: int) -> None:
    campaign = Campaign(2, False, (tuple(voters),))
    for number, voter in enumerate(voters[:refusals], 1):
        campaign.answer(voter, False)
        assert campaign.lost is (number == refusals)


def test_the_first_answer_of_a_voter_counts() -> None:
    campaign = Campaign(2, False, (("a",),))
    campaign.answer("a", False)
    campaign.answer("a", True)
    assert not campaign.won


def test_of_two_sets_of_voters_a_majority_each_is_needed() -> None:
    campaign = Campaign(2, False, (("a", "b", "c"), ("a",)))
    assert [m.to for m in campaign.requests("b", make("1"), False)] == ["a", "c"]
    campaign.answer("b", True)
    campaign.answer("c", True)
    assert not campaign.won and not campaign.lost
    campaign.answer("a", False)
    assert campaign.lost and not campaign.won
    campaign = Campaign(2, False, (("a", "b", "c"), ("a",)))
    campaign.answer("a", True)
    assert not campaign.won
    campaign.answer("c", True)
    assert campaign.won


def test_requests_go_to_the_other_voters() -> None:
    requests = Campaign(5, True, (("a", "b", "c"),)).requests("a", make("12"), False)
    assert [(m.kind, m.to, m.term, m.index, m.log_term) for m in requests] == [
        (MessageKind.PREVOTE, "b", 5, 2, 2),
        (MessageKind.PREVOTE, "c", 5, 2, 2),
    ]


@pytest.mark.parametrize(
    ("kind", "term", "vote", "leader", "last", "granted"),
    [
        (MessageKind.VOTE, 3, "", None, (2, 2), True),
        (MessageKind.VOTE, 3, "b", None, (2, 2), True),
        (MessageKind.VOTE, 3, "c", None, (2, 2), False),
        (MessageKind.VOTE, 3, "", "c", (2, 2), False),
        (MessageKind.VOTE, 3, "", None, (1, 2), False),
        (MessageKind.VOTE, 3, "", None, (9, 1), False),
        (MessageKind.VOTE, 3, "", None, (1, 3), True),
        (MessageKind.PREVOTE, 4, "c", "c", (2, 2), True),
        (MessageKind.PREVOTE, 3, "c", None, (2, 2), False),
        (MessageKind.PREVOTE, 4, "", None, (1, 2), False),
    ],
)
def test_grants(
    kind: MessageKind, term: int, vote: str, leader: str | None, last: tuple[int, int], granted: bool
) -> None:
    message = Message(kind, "a", "b", term, *last)
    assert grants(message, 3, vote, leader, make("12")) is granted

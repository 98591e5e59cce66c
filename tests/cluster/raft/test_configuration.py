"""Changes of the configuration: majorities of adjacent configurations intersect or both are needed; the history follows
the log.
"""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.raft.configuration import History, agreed, agreed_by_all, changed, check
from strogoff.cluster.raft.interface import Rejected
from strogoff.cluster.raft.messages import Change, Configuration

from .raft_harness import change_entry, entry

ABC = Configuration(("a", "b", "c"), ("d",))


@pytest.mark.parametrize(
    ("change", "after"),
    [
        (Change("voter", "d"), Configuration(("a", "b", "c", "d"))),
        (Change("learner", "a"), Configuration(("b", "c"), ("a", "d"))),
        (Change("remove", "b"), Configuration(("a", "c"), ("d",))),
        (Change("remove", "d"), Configuration(("a", "b", "c"))),
        (Change("learner", "e"), Configuration(("a", "b", "c"), ("d", "e"))),
        (Change("learner", "d"), ABC),
        (
            Change("remove", "c", (Change("learner", "b"), Change("voter", "d"))),
            Configuration(("a", "d"), ("b",), ("a", "b", "c")),
        ),
    ],
)
def test_changed(change: Change, after: Configuration) -> None:
    assert changed(ABC, change) == after


@pytest.mark.parametrize("change", [Change("voter", "d"), Change("remove", "a"), Change("learner", "b")])
def test_majorities_of_adjacent_configurations_intersect(change: Change) -> None:
    old, new = ABC.voters, changed(ABC, change).voters
    for one in combinations(old, len(old) // 2 + 1):
        for other in combinations(new, len(new) // 2 + 1):
            assert set(one) & set(other)


@pytest.mark.parametrize(
    ("change", "ready", "says"),
    [
        (Change("voter", "d"), False, "caught up"),
        (Change("voter", "a"), False, "a voter"),
        (Change("learner", "d"), True, "a learner"),
        (Change("remove", "x"), True, "unknown"),
        (Change("remove", "a", (Change("learner", "a"),)), True, "each peer once"),
        (Change("remove", "a", (Change("learner", "b", (Change("remove", "c"),)),)), True, "each peer once"),
        (Change("remove", "a", (Change("voter", "d"),)), False, "d is not a learner that has caught up"),
        (Change("remove", "a", (Change("voter", "c"),)), True, "c is a voter"),
        (Change("remove", "a", (Change("learner", "b"), Change("remove", "c"))), True, "last voter"),
    ],
)
def test_refused(change: Change, ready: bool, says: str) -> None:
    with pytest.raises(Rejected, match=says):
        check(ABC, change, lambda peer: ready)


def test_the_last_voter_stays() -> None:
    for action in ("remove", "learner"):
        with pytest.raises(Rejected, match="last voter"):
            check(Configuration(("a",), ("b",)), Change(action, "a"), lambda peer: True)
    check(ABC, Change("voter", "d"), lambda peer: True)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7))
def test_the_agreed_index_is_reached_by_a_majority(values: list[int]) -> None:
    dumb = max(limit for limit in range(10) if sum(value >= limit for value in values) * 2 > len(values))
    assert agreed(values) == dumb


def test_the_agreed_index_without_voters() -> None:
    assert agreed([]) == 0


def test_two_majorities_decide_until_a_change_of_several_is_committed() -> None:
    history = History(3, Configuration(("a",), ("b", "c")))
    history.append(change_entry(5, 1, Change("voter", "b", (Change("voter", "c"),))))
    assert history.quorums(4) == (("a", "b", "c"), ("a",))
    assert history.quorums(5) == (("a", "b", "c"),)
    values = {"a": 4.0, "b": 6.0, "c": 6.0}
    assert agreed_by_all(history.quorums(4), values.__getitem__) == 4
    assert agreed_by_all(history.quorums(5), values.__getitem__) == 6
    history.append(change_entry(6, 1, Change("learner", "c")))  # only after the earlier change is committed
    assert history.quorums(4) == (("a", "b"),)


def test_history() -> None:
    history = History(3, ABC)
    history.append(entry(4, 1, b"x"))
    history.append(change_entry(5, 1, Change("voter", "d")))
    history.append(change_entry(8, 1, Change("remove", "a")))
    assert history.last.voters == ("b", "c", "d") and history.last_index == 8
    assert history.at(4) == ABC and history.at(7).voters == ("a", "b", "c", "d")
    history.cut(8)
    assert history.last_index == 5
    history.forget(6)
    assert history.at(6) == history.last
    history.cut(7)
    assert list(history.last.voters) == ["a", "b", "c", "d"]

"""A commit is safe when every follower that counts has it: in order, and never before."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from strogoff.broker.clustering.copy_commits import CopyCommits, Counted
from strogoff.cluster.slots.table import Holder

RIVALS = [(7, Holder("b", "disk", 1))]
"""A slot that another node may get as well."""


@dataclass
class Copy:
    counts: bool = True


def commits(*added: tuple[int, str, int, Copy]) -> CopyCommits:
    """Commits up to 5 have closed; some of them wait: commit, node, number of the item, copy."""
    found = CopyCommits(0)
    for commit in range(1, 6):
        found.last = commit
        waits: list[tuple[str, int, list[Counted]]] = [
            (node, seq, [copy]) for number, node, seq, copy in added if number == commit
        ]
        if waits:
            found.add(commit, waits)
    return found


def test_commits_that_no_follower_needs_are_safe_at_once() -> None:
    assert commits().safe == 5


def test_a_commit_waits_for_the_item_of_its_follower() -> None:
    found = commits((3, "b", 7, Copy()))
    assert found.safe == 2
    assert found.acked("b", 6, 0) and not found.settle() and found.safe == 2
    assert found.acked("b", 7, 0) and found.settle() and found.safe == 5


def test_a_commit_waits_for_all_before_it() -> None:
    found = commits((2, "b", 1, Copy()), (3, "c", 1, Copy()))
    assert found.acked("c", 1, 0) and not found.settle() and found.safe == 1
    assert found.acked("b", 1, 0) and found.settle() and found.safe == 5


def test_a_follower_that_does_not_count_any_more_holds_nothing_back() -> None:
    lost, other = Copy(), Copy()
    found = commits((2, "b", 1, lost), (2, "c", 1, other))
    lost.counts = False
    assert not found.settle() and found.safe == 1
    assert found.acked("c", 1, 0) and found.settle() and found.safe == 5


def test_commits_that_are_held_wait_whatever_is_acknowledged() -> None:
    """The follower gets the rest of its lane as voids, and acknowledges these as well."""
    lost = Copy()
    found = commits((2, "b", 1, lost))
    found.rivals, lost.counts = RIVALS, False
    assert found.acked("b", 1, 0) and not found.settle() and found.safe == 1
    found.rivals = []
    assert found.settle() and found.safe == 5


def test_a_commit_without_items_waits_while_commits_are_held() -> None:
    found = commits()
    found.rivals, found.last = RIVALS, 6
    found.add(6, [])
    assert not found.settle() and found.safe == 5
    found.rivals = []
    assert found.settle() and found.safe == 6


def test_an_acknowledgement_by_a_later_table_counts_when_this_node_follows_it() -> None:
    """The follower may have become primary: then it took nothing, although it acknowledges the items."""
    found = commits((2, "b", 1, Copy()))
    assert not found.acked("b", 1, 30) and not found.settle() and found.safe == 1
    assert not found.acked("b", 2, 20), "it comes behind one that does not count yet"
    assert found.follow(29) == [] and not found.settle()
    assert found.follow(30) == [("b", 2)] and found.settle() and found.safe == 5


def test_the_acknowledgements_of_a_node_that_follows_nothing_are_forgotten() -> None:
    found = commits((2, "b", 5, Copy()))
    found.acked("b", 4, 0)
    found.acked("c", 9, 99)
    assert found.forget_all_but({"d"}) == ["b", "c"]
    assert found.follow(99) == [] and not found.settle() and found.safe == 1


@given(st.lists(st.tuples(st.sampled_from("bc"), st.integers(0, 6)), max_size=20))
def test_safe_is_the_prefix_that_all_followers_have(acks: list[tuple[str, int]]) -> None:
    found = CopyCommits(0)
    needs = {commit: ("b" if commit % 2 else "c", (commit + 1) // 2) for commit in range(1, 11)}
    for commit, (node, seq) in needs.items():
        found.last = commit
        found.add(commit, [(node, seq, [Copy()])])
    have = {"b": 0, "c": 0}
    for node, upto in acks:
        have[node] = max(have[node], upto)
        found.acked(node, upto, 0)
        before = found.safe
        assert found.settle() is (found.safe > before)
        lacking = [commit for commit, (by, seq) in needs.items() if have[by] < seq]
        assert found.safe == min(lacking, default=11) - 1

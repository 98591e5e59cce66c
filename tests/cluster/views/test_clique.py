"""The exact search against trying all subsets."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.views.clique import connected, largest_clique

NAMES = "abcdefg"
HEARS = st.fixed_dictionaries({name: st.sets(st.sampled_from(NAMES)).map(sorted) for name in NAMES})


def by_trying_all(centre: str, nodes: str, hears: dict[str, list[str]]) -> tuple[str, ...]:
    others = sorted(set(nodes) - {centre})
    for size in range(len(others), -1, -1):
        for chosen in combinations(others, size):
            names = (centre, *chosen)
            if all(b in hears[a] and a in hears[b] for a, b in combinations(names, 2)):
                return tuple(sorted(names))
    raise AssertionError


@given(st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES)).map(lambda s: "".join(sorted(s))), HEARS)
def test_it_finds_what_trying_all_finds(centre: str, nodes: str, hears: dict[str, list[str]]) -> None:
    assert largest_clique(centre, nodes, hears) == by_trying_all(centre, nodes, hears)


def everybody_but(*cuts: str) -> dict[str, list[str]]:
    """Each hears all, but for cuts such as "ab": a does not hear b."""
    return {a: [b for b in NAMES if b != a and a + b not in cuts] for a in NAMES}


def test_a_pair_that_is_cut_loses_its_higher_name() -> None:
    assert largest_clique("c", "abc", everybody_but("ab", "ba")) == ("a", "c")
    assert largest_clique("b", "abc", everybody_but("ab", "ba")) == ("b", "c")


def test_one_deaf_ear_is_enough() -> None:
    assert largest_clique("a", "abc", everybody_but("cb")) == ("a", "b")


def test_more_nodes_before_lower_names() -> None:
    assert largest_clique("e", "abcde", everybody_but("ab", "ba", "ac", "ca")) == ("b", "c", "d", "e")


def test_fifteen_nodes_are_searched_in_no_time() -> None:
    names = [f"n{i:02}" for i in range(15)]
    hears = {a: [b for b in names if int(a[1:]) // 2 != int(b[1:]) // 2] for a in names}
    assert largest_clique("n14", names, hears) == (*names[0:14:2], "n14")


def test_who_says_nothing_hears_nobody() -> None:
    assert largest_clique("a", "ab", {"a": ["b"]}) == ("a",)
    assert not connected("a", ["b"], {"a": ["b"]})
    assert connected("a", ["a", "b"], {"a": ["b"], "b": ["a"]})

"""The search for a clique against a search of all subsets, and its number of steps."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.membership.clique import connected, largest_clique

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
def test_the_search_finds_the_largest_clique(centre: str, nodes: str, hears: dict[str, list[str]]) -> None:
    assert largest_clique(centre, nodes, hears) == by_trying_all(centre, nodes, hears)


def everybody_but(*cuts: str) -> dict[str, list[str]]:
    """Every node hears all others, except for cuts such as "ab": a does not hear b."""
    return {a: [b for b in NAMES if b != a and a + b not in cuts] for a in NAMES}


def test_the_higher_name_of_a_cut_pair_is_left_out() -> None:
    assert largest_clique("c", "abc", everybody_but("ab", "ba")) == ("a", "c")
    assert largest_clique("b", "abc", everybody_but("ab", "ba")) == ("b", "c")


def test_a_one_way_cut_separates_a_pair() -> None:
    assert largest_clique("a", "abc", everybody_but("cb")) == ("a", "b")


def test_the_size_counts_before_the_names() -> None:
    assert largest_clique("e", "abcde", everybody_but("ab", "ba", "ac", "ca")) == ("b", "c", "d", "e")


def of_groups(sizes: list[int]) -> dict[str, list[str]]:
    """Every node hears all but its own group: a clique has one node of each group, so there are many cliques."""
    groups = [group for group, size in enumerate(sizes) for _ in range(size)]
    names = [f"n{number:02}" for number in range(len(groups))]
    of = dict(zip(names, groups, strict=True))
    return {a: [b for b in names if of[a] != of[b]] for a in names}


@pytest.mark.parametrize("sizes", [[2] * 7 + [1], [2] * 12 + [1], [3] * 8 + [1], [5] * 5, [1] * 25])
def test_many_cliques_of_one_size_cost_no_more_than_one(sizes: list[int]) -> None:
    hears = of_groups(sizes)
    found = largest_clique("n00", hears, hears, steps=2 * len(hears))
    firsts = [sum(sizes[:group]) for group in range(len(sizes))]
    assert found == tuple(f"n{number:02}" for number in firsts)


@pytest.mark.parametrize("likely", [0.5, 0.8, 0.9, 0.97])
@pytest.mark.parametrize("seed", range(5))
def test_twenty_five_nodes_are_searched_to_the_end(seed: int, likely: float) -> None:
    """More steps would find no larger clique."""
    rng = Random(seed)
    names = [f"n{number:02}" for number in range(25)]
    hears = {a: [b for b in names if a != b and rng.random() < likely] for a in names}
    assert largest_clique("n07", names, hears) == largest_clique("n07", names, hears, steps=1_000_000)


@given(st.integers(1, 12), HEARS)
def test_a_search_that_is_cut_short_finds_a_clique_and_always_the_same(steps: int, hears: dict[str, list[str]]) -> None:
    found = largest_clique("a", NAMES, hears, steps)
    assert "a" in found and found == largest_clique("a", NAMES, hears, steps)
    assert all(connected(name, found, hears) for name in found)


def test_a_node_without_a_report_hears_no_other() -> None:
    assert largest_clique("a", "ab", {"a": ["b"]}) == ("a",)
    assert not connected("a", ["b"], {"a": ["b"]})
    assert connected("a", ["a", "b"], {"a": ["b"], "b": ["a"]})

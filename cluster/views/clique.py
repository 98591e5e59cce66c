"""The largest set of nodes that all hear each other (review, hole 6)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping


def largest_clique(centre: str, nodes: Iterable[str], hears: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """The largest clique of `nodes` that contains `centre`, sorted. Two are joined if each hears the other.

    Of several that are as large, the one with the lowest names ("lowest names out last"): where two differ, the one
    that has the first name in which they do. The search is exact, exponential in the worst case: for up to 15 nodes.
    """
    names = sorted({*nodes, centre})
    mutual = {a: [b for b in names if a != b and b in hears.get(a, ()) and a in hears.get(b, ())] for a in names}
    best: list[str] = []

    def grow(chosen: list[str], candidates: list[str]) -> None:
        # Low names are tried first, and only a larger clique replaces the best: the first of its size is the lowest.
        nonlocal best
        if len(chosen) > len(best):
            best = chosen
        for position, name in enumerate(candidates):
            rest = candidates[position:]
            if len(chosen) + len(rest) <= len(best):
                return
            grow([*chosen, name], [other for other in rest if other in mutual[name]])

    grow([centre], mutual[centre])
    return tuple(sorted(best))


def connected(node: str, others: Iterable[str], hears: Mapping[str, Collection[str]]) -> bool:
    """True if `node` and each of the others hear each other."""
    mine = hears.get(node, ())
    return all(other in mine and node in hears.get(other, ()) for other in others if other != node)

"""The largest set of nodes that all hear each other (H-06)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

STEPS = 2000
"""Number of sets after which the search ends with the best one so far: 10 to 20 ms of a leader's time."""


def largest_clique(
    centre: str, nodes: Iterable[str], hears: Mapping[str, Collection[str]], steps: int = STEPS
) -> tuple[str, ...]:
    """Returns the largest clique of `nodes` that contains `centre`, sorted. Two nodes are adjacent if each hears the
    other.

    Among cliques of equal size, the one with the lowest names wins: sorted lists are compared name by name. The search
    ends after `steps` sets with the best clique so far. The result is the same for equal arguments, and for up to 25
    nodes nearly always the largest clique.
    """
    names = sorted({*nodes, centre})
    hears_set = {name: set(hears.get(name, ())) for name in names}
    mutual = {a: {b for b in names if a != b and b in hears_set[a] and a in hears_set[b]} for a in names}
    near = sorted(mutual[centre])
    best: list[str] = []

    def grow(chosen: list[str], candidates: list[str]) -> None:
        # Low names are tried first, and only a larger clique replaces the best: the first of its size is the lowest.
        nonlocal best, steps
        steps -= 1
        if len(chosen) > len(best):
            best = chosen
        bounds = _bounds(candidates, mutual)
        for position, name in enumerate(candidates):
            if steps <= 0 or len(chosen) + bounds[position] <= len(best):
                return
            joined = mutual[name]
            grow([*chosen, name], [other for other in candidates[position + 1 :] if other in joined])

    grow([centre], near)
    return tuple(sorted(best))


def _bounds(candidates: list[str], mutual: Mapping[str, Collection[str]]) -> list[int]:
    """Returns for each position an upper bound for the size of a clique of the candidates from there on.

    This is greedy graph colouring: candidates of one colour do not hear each other, so a clique has at most one node of
    each colour.
    """
    colours: list[list[str]] = []
    bounds = []
    for name in reversed(candidates):
        joined = mutual[name]
        for colour in colours:
            if not any(other in joined for other in colour):
                colour.append(name)
                break
        else:
            colours.append([name])
        bounds.append(len(colours))
    bounds.reverse()
    return bounds


def connected(node: str, others: Iterable[str], hears: Mapping[str, Collection[str]]) -> bool:
    """True if `node` and each of the others hear each other."""
    mine = hears.get(node, ())
    return all(other in mine and node in hears.get(other, ()) for other in others if other != node)

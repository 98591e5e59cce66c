"""Whatever waits in a relay stays below its limit, at every moment (H-31)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Level:
    """A number at one moment, and its greatest allowed value. The least one is 0."""

    what: str
    value: int
    most: int


def judge(node: str, levels: Iterable[Level]) -> Iterator[str]:
    """Yield a violation for each number beyond its limits."""
    for each in levels:
        if not 0 <= each.value <= each.most:
            yield f"relay limit: {node} has {each.what} {each.value}, of {each.most}"


def ends(asked: Mapping[tuple[str, str], set[int]], served: Mapping[tuple[str, str], set[int]]) -> Iterator[str]:
    """Yield a phrase for each pair (gateway, primary) with connections that only one of the two nodes has.

    At rest both ends of each relay know the same connections (H-32).
    """
    for pair in sorted(asked.keys() | served.keys()):
        ours, theirs = asked.get(pair, set()), served.get(pair, set())
        if ours != theirs:
            gateway, primary = pair
            yield (
                f"{gateway} has {len(ours - theirs)} connections that {primary} does not have, "
                f"and {primary} has {len(theirs - ours)} of {gateway} that it does not have"
            )

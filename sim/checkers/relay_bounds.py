"""Whatever waits in a relay stays below its limit, at every moment (H-31)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

LONGEST_S = 5.0
"""The longest time, in seconds, in which one end of a relay does not know what the other does, with an open tunnel."""


Level = tuple[str, int, int]
"""What it is, a number at one moment, and the greatest allowed one. The least one is 0."""


def judge(node: str, levels: Iterable[Level]) -> Iterator[str]:
    """Yield a violation for each number beyond its limits."""
    for what, value, most in levels:
        if not 0 <= value <= most:
            yield f"relay limit: {node} has {what} {value}, of {most}"


class OneEnd:
    """Remembers since when only one of two nodes has a connection."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str, int], float] = {}

    def judge(
        self, now_s: float, asked: Mapping[tuple[str, str], set[int]], served: Mapping[tuple[str, str], set[int]]
    ) -> Iterator[str]:
        """Yield the connections that only one node has for `LONGEST_S`. The pairs have an open, empty tunnel."""
        found: dict[tuple[str, str, int], float] = {}
        for pair in asked.keys() & served.keys():
            for number in asked[pair] ^ served[pair]:
                one = (*pair, number)
                found[one] = self._since.get(one, now_s)
        self._since = found
        for (gateway, primary, number), since_s in found.items():
            if now_s - since_s > LONGEST_S:
                has = gateway if number in asked[gateway, primary] else primary
                yield f"one end: only {has} has a relayed connection between gateway {gateway} and primary {primary}"


def credit(sender: str, receiver: str, has: int, gave: int) -> Iterator[str]:
    """Check one direction of a connection: the sender has no more credit than the receiver gave."""
    if has > gave:
        yield f"relay limit: {sender} has credit of {has} bytes at {receiver}, which gave {gave}"


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

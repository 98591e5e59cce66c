"""Only a side with a majority of the voters serves (H-21; policies off and majority, anomaly A19).

The majority is the leader's, which confirms that it still leads (H-05); whoever is heard by that leader may get a
lease, be it that it does not reach the others of the majority. It need not hear the leader at the same time: the lease
begins when the request leaves, and its answer may wait in the network until a cut is over. Who serves beside whom is a
question of the view's clique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ...cluster.membership.settings import Settings

LEASE_S = Settings().expiry_ms / 1000
"""No lease lasts longer by true time, for clocks differ by less than its drift."""


def reaches_majority(node: str, leaders: Mapping[str, Sequence[str]], hears: Callable[[str, str], bool]) -> bool:
    """Whether a node may be heard by one that leads, and that one exchange messages with a majority of the voters.

    `leaders`: the voters as each knows them that thinks that it leads. `hears(a, b)`: what `b` sends comes to `a`.
    """
    for leader, voters in leaders.items():
        reached = sum(voter == leader or (hears(leader, voter) and hears(voter, leader)) for voter in voters)
        if 2 * reached > len(voters) and (node == leader or hears(leader, node)):
            return True
    return False


def judge(now_s: float, holders: Sequence[str], reached_at: Mapping[str, float]) -> Iterator[str]:
    """`reached_at`: when each node last could reach a majority. Nobody holds a lease for longer than that allows."""
    for node in holders:
        since = now_s - reached_at.get(node, now_s)
        if since > LEASE_S:
            yield f"side: {node} holds a lease, and could reach no majority of the voters for {since:.2f} s"

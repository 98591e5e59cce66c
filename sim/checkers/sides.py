"""Only a side with a majority of the voters serves (H-21; policies off and majority, anomaly A19).

The leader confirms with a majority that it still leads (H-05). Every node that the leader hears may get a lease, even
if the node does not reach the others of the majority. The node need not hear the leader at the same time: the lease
begins when the request leaves, and the answer may wait in the network until a cut is over. Which nodes serve together
is decided by the view's clique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ...cluster.membership.settings import Settings

LEASE_S = Settings().expiry_ms / 1000
"""No lease lasts longer by true time, because clocks differ by less than its drift."""


def reaches_majority(node: str, leaders: Mapping[str, Sequence[str]], hears: Callable[[str, str], bool]) -> bool:
    """Whether a leader that exchanges messages with a majority of the voters may hear this node.

    `leaders` maps each node that believes to lead to the voters as it knows them. `hears(a, b)`: messages of `b` come
    to `a`.
    """
    for leader, voters in leaders.items():
        reached = sum(voter == leader or (hears(leader, voter) and hears(voter, leader)) for voter in voters)
        if 2 * reached > len(voters) and (node == leader or hears(leader, node)):
            return True
    return False


def judge(now_s: float, holders: Sequence[str], reached_at: Mapping[str, float]) -> Iterator[str]:
    """A node holds a lease no longer than `LEASE_S` after it could last reach a majority (`reached_at`, in s)."""
    for node in holders:
        since = now_s - reached_at.get(node, now_s)
        if since > LEASE_S:
            yield f"side: {node} holds a lease, and could reach no majority of the voters for {since:.2f} s"

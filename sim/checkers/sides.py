"""Only a side with a majority of the voters serves (H-21; policies off and majority, anomaly A19).

The leader confirms with a majority that it still leads (H-05). Every node that the leader hears may get a lease, even
if it does not reach the other nodes of the majority. It may be unable to hear the leader at that time: the lease begins
when the request leaves, and the answer may wait in the network until a cut ends. The view's clique decides which nodes
serve together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ...cluster.membership.settings import Settings

LEASE_S = Settings().expiry_ms / 1000
"""The longest lease in true time, in s: the settings allow for the drift of clocks."""


def reaches_majority(node: str, leaders: Mapping[str, Sequence[str]], hears: Callable[[str, str], bool]) -> bool:
    """Whether a leader that exchanges messages with a majority of the voters may hear this node.

    `leaders`: each node that believes that it leads -> the voters in its configuration. `hears(a, b)`: messages of `b`
    reach `a`.
    """
    for leader, voters in leaders.items():
        reached = sum(voter == leader or (hears(leader, voter) and hears(voter, leader)) for voter in voters)
        if 2 * reached > len(voters) and (node == leader or hears(leader, node)):
            return True
    return False


def judge(now_s: float, holders: Sequence[str], reached_at: Mapping[str, float]) -> Iterator[str]:
    """Check that no node holds a lease longer than `LEASE_S` after it last reached a majority (`reached_at`, in s)."""
    for node in holders:
        since = now_s - reached_at.get(node, now_s)
        if since > LEASE_S:
            yield f"side: {node} holds a lease, and could reach no majority of the voters for {since:.2f} s"

"""Where a node dials the other members, by the log, by discovery, and by what peers say of themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..links.hello import PeerInfo
from .state_machine import MembershipState

STRANGERS_MOST = 32
"""The most peers that this node dials at the same time although its log does not name their disks."""


class PeerAddresses:
    """The addresses of the other members for the node `me`.

    `seeds`: node -> address of the members that answered this node's request to join. The node dials them until it has
    read of a member in the log.
    """

    def __init__(self, me: str) -> None:
        self._me = me
        self.seeds: dict[str, str] = {}
        self._hints: dict[str, str] = {}
        self._ahead: dict[str, PeerInfo] = {}

    def joined_through(self, members: Mapping[str, str]) -> None:
        """These members (node -> address) took this node in."""
        self.seeds = {node: address for node, address in members.items() if node != self._me}

    def hint(self, node: str, address: str) -> None:
        """Discovery found a member at an address that the log does not have."""
        self._hints[node] = address

    def logged(self, node: str) -> None:
        """The log has a start of this node, with its address."""
        self._hints.pop(node, None)

    def is_ahead(self, hello: PeerInfo, membership: MembershipState) -> bool:
        """Whether a peer's disk became a member at an entry that this node has not applied yet.

        Then the log, as applied here, cannot judge the peer, and perhaps no other node can send the entry (H-48).
        """
        row = membership.members.get(hello.node)
        return (row is None or row.disk != hello.disk) and hello.joined > membership.index

    def trust(self, hello: PeerInfo) -> bool:
        """Dial a peer that `is_ahead` at the address in its hello, until this node has applied its entry, or has to
        `forget` it. Returns False if there are `STRANGERS_MOST` others already."""
        if hello.node not in self._ahead and len(self._ahead) >= STRANGERS_MOST:
            return False
        self._ahead[hello.node] = hello
        return True

    def forget(self, hears: Callable[[str], bool]) -> list[str]:
        """Forget the peers ahead of the log from which no stream is open any more. Returns their names."""
        gone = [node for node in self._ahead if not hears(node)]
        for node in gone:
            del self._ahead[node]
        return gone

    def of(self, membership: MembershipState) -> dict[str, str]:
        """Returns node -> address of the nodes to dial."""
        rows = [row for row in membership.members.values() if row.node != self._me]
        self._ahead = {node: peer for node, peer in self._ahead.items() if peer.joined > membership.index}
        members = {row.node: row.address for row in rows}
        if self._me not in membership.members:
            # the log is not applied up to this node's own entry: what it has of the others may be from earlier starts
            members |= self.seeds
        members = {node: self._hints.get(node, address) for node, address in members.items()}
        return {**members, **{node: peer.address for node, peer in self._ahead.items()}}

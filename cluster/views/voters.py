"""Which peer should become what in Raft, one step at a time (review, holes 3 and 21).

Every member's disk is a peer: a learner first, a voter if it is wanted as one and holds the log. Peers of disks that
belong to no member, or to a stale one, are removed. A step that would leave no majority of voters within reach is not
made, and one from an odd to an even number of voters only if the next one can follow.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from ..raft.messages import Change, Configuration
from .machine import Membership, wanted_voters


class Peers(Protocol):
    """What is asked of the leader's Raft: `raft.core.Raft` has it."""

    @property
    def peer(self) -> str:
        """The leader's own peer."""

    @property
    def term(self) -> int:
        """The term in which it leads."""

    @property
    def configuration(self) -> Configuration:
        """The voters and learners in force."""

    def caught_up(self, peer: str) -> bool:
        """True if the peer answers and holds nearly all of the log."""


class Transfer(Struct, frozen=True):
    """The leader should hand over to `peer`: it is to be no voter, or it is stuck."""

    peer: str


VoterChange = Change | Transfer


def next_change(membership: Membership, peers: Peers, stuck: bool = False) -> VoterChange | None:
    """The next step towards the wanted voters, or None. `stuck`: the leader's own loop or disk hangs (hole 6)."""
    voters = peers.configuration.voters
    wanted = wanted_voters(membership)
    if not wanted:
        return None
    if stuck or peers.peer not in wanted:
        heirs = [peer for peer in voters if peer != peers.peer and peers.caught_up(peer)]
        heirs = [peer for peer in heirs if peer in wanted] or heirs
        if heirs:
            return Transfer(heirs[0])
        if stuck:
            return None
    steps = _removals(membership, peers) or _new_learners(membership, peers.configuration) or _votes(wanted, peers)
    return next((step for step in steps if _within_reach(peers, step)), None)


def _removals(membership: Membership, peers: Peers) -> list[Change]:
    known = membership.peers
    gone = [peer for peer in peers.configuration.peers if peer not in known and peer != peers.peer]
    return [Change("remove", peer) for peer in gone]


def _new_learners(membership: Membership, configuration: Configuration) -> list[Change]:
    return [Change("learner", peer) for peer in membership.peers if peer not in configuration.peers]


def _votes(wanted: tuple[str, ...], peers: Peers) -> list[Change]:
    voters = peers.configuration.voters
    rising = [Change("voter", peer) for peer in wanted if peer not in voters and peers.caught_up(peer)]
    falling = [Change("learner", peer) for peer in voters if peer not in wanted and peer != peers.peer]
    steps = rising + falling
    return steps if len(voters) % 2 == 0 or len(steps) > 1 else []


def _within_reach(peers: Peers, change: Change) -> bool:
    """True if a majority of the voters after the change answers: the change itself needs it to be committed."""
    after = [peer for peer in peers.configuration.voters if peer != change.peer]
    if change.action == "voter":
        after.append(change.peer)
    near = sum(peer == peers.peer or peers.caught_up(peer) for peer in after)
    return near * 2 > len(after)

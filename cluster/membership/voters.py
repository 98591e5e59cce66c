"""Chooses the next change of voters or learners, one log entry at a time (H-03, H-21).

Every member's disk is a Raft peer. It begins as a learner. It becomes a voter if it is wanted as one, answers, and
holds the log. Peers of disks that belong to no member, or to a stale one, are removed. A change is made only if a
majority of the new voters is reachable.

From an odd number of voters, two change in one entry, so that the number stays odd. With two voters neither may fail:
if the second and third node became voters one by one, a failure of the second would stop the cluster in between. Only
the loss of a voter's disk may leave an even number, until another disk has the log.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from ..raft.configuration import changed
from ..raft.messages import Change, Configuration
from .state_machine import MembershipState, wanted_voters


class Peers(Protocol):
    """The part of the leader's Raft that the coordinator reads; `raft.core.Raft` implements it."""

    @property
    def peer(self) -> str:
        """The leader's own Raft peer, `node/disk`."""

    @property
    def term(self) -> int:
        """The term in which this node leads."""

    @property
    def configuration(self) -> Configuration:
        """The voters and learners in force, even if the last change is not committed yet."""

    def answers(self, peer: str) -> bool:
        """Whether the leader has heard the peer within an election timeout, even if the peer lacks entries."""

    def caught_up(self, peer: str) -> bool:
        """Whether the peer answers and lacks at most `raft.interface.Settings.caught_up` entries."""


class Transfer(Struct, frozen=True):
    """The leader should transfer leadership to `peer`, because it must stop voting or is stuck."""

    peer: str


VoterChange = Change | Transfer


def next_change(membership: MembershipState, peers: Peers, stuck: bool = False) -> VoterChange | None:
    """Returns the next change towards the wanted voters, or None. `stuck`: the leader's loop or disk hangs (H-06)."""
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
    return next((change for change in _changes(membership, wanted, peers) if _within_reach(peers, change)), None)


def _changes(membership: MembershipState, wanted: tuple[str, ...], peers: Peers) -> list[Change]:
    """Returns the possible changes, the best first."""
    configuration, known = peers.configuration, membership.peers
    voters, is_odd = configuration.voters, len(configuration.voters) % 2 == 1
    removals = [Change("remove", peer) for peer in configuration.peers if peer not in known and peer != peers.peer]
    rising = [peer for peer in wanted if peer in configuration.learners and peers.caught_up(peer)]
    falling = [peer for peer in voters if peer not in wanted and peer in known and peer != peers.peer]
    votes = [Change("voter", peer) for peer in rising] + [Change("learner", peer) for peer in falling]
    moves = [change for change in removals if change.peer in voters] + votes
    if removals:
        return _pair(moves) + removals if is_odd and removals[0] in moves else removals
    learners = [Change("learner", peer) for peer in known if peer not in configuration.peers]
    return learners or (_pair(moves) if is_odd else moves)


def _pair(changes: list[Change]) -> list[Change]:
    """Join the first two changes into one entry."""
    return [Change(changes[0].action, changes[0].peer, (changes[1],))] if len(changes) > 1 else []


def _within_reach(peers: Peers, change: Change) -> bool:
    """True if a majority of the voters that must agree to the change answers."""
    after = changed(peers.configuration, change)
    sets = (after.voters, after.former) if after.former else (after.voters,)
    return all(_is_near(peers, voters, after.peers) for voters in sets)


def _is_near(peers: Peers, voters: tuple[str, ...], known: tuple[str, ...]) -> bool:
    near = sum(peer == peers.peer or (peer in known and peers.caught_up(peer)) for peer in voters)
    return near * 2 > len(voters)

"""Parts of a member's views, leases and Raft, each with one bug, for `cluster_bugs`."""

from __future__ import annotations

from typing import Any

from ...cluster.membership.coordinator import MembershipCoordinator
from ...cluster.membership.leader_time import LeaderTime
from ...cluster.membership.lease import LeaseHolder
from ...cluster.membership.messages import decode_request, encode_lease
from ...cluster.membership.state_machine import MembershipState
from ...cluster.membership.view import View
from ...cluster.raft.leader import Leadership
from ...cluster.slots.table import Holder, SlotRow
from ...cluster.slots.update import TableUpdate
from ..engine.machine import Machine


class FormerSelf(LeaseHolder):
    """Takes over the boot that the view has for its node."""

    def applied(self, view: View) -> None:
        """Take over the boot of the node's row in the view."""
        row = view.row(self.node)
        if row is not None:
            self.boot = row.boot
        super().applied(view)


class HearsEverybody(LeaseHolder):
    """Reports that it hears every other node, and that its disk works."""

    others: tuple[str, ...] = ()

    def hears(self, now_ms: float) -> tuple[str, ...]:
        """Returns all other nodes."""
        return self.others

    def wants_commit(self, now_ms: float) -> bool:
        """Claim that a commit is complete, without a write."""
        self._committed = True
        return False


class Hasty(MembershipCoordinator):
    """A new leader that assumes that no lease exists except its own grants."""

    def silent(self, node: str, now_ms: float) -> bool:
        """Treat a node that has not reported yet as silent."""
        return (node != self.node and node not in self._heard) or super().silent(node, now_ms)

    def expired(self, node: str, now_ms: float) -> bool:
        """Treat a lease that this leader has not granted as expired."""
        return node not in self._granted or super().expired(node, now_ms)


class TrustsWallClock(LeaderTime):
    """Takes the wall clock for cluster time, whether or not another member knows it."""

    def elected(self) -> None:
        """Follow the wall clock."""
        self._follow(None)


class CountsLearners(Leadership):
    """Counts learners as if they were voters."""

    def commit(self) -> bool:
        """Commit with the acknowledgements of all peers, not only of voters."""
        index = int(self._counted(self._match))
        return self._countable(index) and self._log.commit(index)

    def tick(self, now_ms: float) -> bool:
        """Count all heard peers, not only voters."""
        super().tick(now_ms)
        heard = self._counted(lambda peer: now_ms if peer == self.peer else self._peers[peer].heard_ms)
        return now_ms - heard < self._settings.election_ms[1]

    def confirmed(self) -> tuple[int, ...]:
        """Count all peers that answered, not only voters."""
        if not self._tickets or self._log.committed < self.first_index:
            return ()
        answered = self._counted(lambda peer: self._round if peer == self.peer else self._peers[peer].round)
        found = []
        while self._tickets and self._tickets[0][0] <= answered:
            found.append(self._tickets.popleft()[1])
        return tuple(found)

    def _counted(self, reached: Any) -> float:
        configuration = self._log.history.last
        values = sorted([reached(peer) for peer in configuration.peers], reverse=True)
        return float(values[len(configuration.voters) // 2])


class ComparesNodes(TableUpdate):
    """Counts a holder as present if any incarnation of its node is in the view."""

    def is_present(self, holder: Holder) -> bool:
        """Compare the node alone."""
        return holder.node in self.roll.present


class KeepsEpochs(TableUpdate):
    """Gives a slot back to the same node in its former epoch."""

    def epoch_of(self, row: SlotRow, primary: Holder | None, deputy: Holder | None) -> int:
        """Return the former epoch if the node had the slot before."""
        if primary is not None and primary.node in [holder.node for holder in row.in_sync]:
            return row.epoch
        return super().epoch_of(row, primary, deputy)


def goes_on_as_before(machine: Machine) -> None:
    """Do not report this boot to the log, and continue with the previous one."""
    member: Any = machine.member
    holder = member.lease_service.holder
    holder.__class__ = FormerSelf
    known = member.membership.members.get(machine.name)
    member.registrar.tick = lambda: None
    if known is not None:
        holder.process = known.process
        holder.applied(member.view)


def hears_everybody(machine: Machine) -> None:
    """Do not report partial cuts and hanging disks to the leader."""
    holder: Any = _lease_service(machine).holder
    holder.__class__ = HearsEverybody
    holder.others = tuple([name for name in sorted(machine.network.gates) if name != machine.name])


def serves_at_once(machine: Machine) -> None:
    """Serve as soon as the node is in the view and has a lease, also while it is joining."""
    lease_service, member = _lease_service(machine), machine.member
    assert member is not None

    def valid() -> bool:
        mine = lease_service.holder.incarnation is not None
        return mine and lease_service.holder.valid(member.ports.now_ms(), member.ports.wall_ms())

    lease_service.valid = valid


def hasty_leader(machine: Machine) -> None:
    """Do not wait for the end of the leases of the former leader."""
    _lease_service(machine).coordinator.__class__ = Hasty


def trusts_wall_clock(machine: Machine) -> None:
    """Let a new leader take its wall clock for cluster time."""
    lease_service: Any = _lease_service(machine)
    lease_service._time.__class__ = TrustsWallClock


def counts_learners(machine: Machine) -> None:
    """Let a leader count learners as voters."""
    member: Any = machine.member
    member.consensus.raft.leadership = CountsLearners


def compares_nodes(machine: Machine) -> None:
    """Compare holders of slots by their nodes."""
    _update_slots_with(machine, ComparesNodes)


def keeps_epochs(machine: Machine) -> None:
    """Do not begin another epoch if the same node gets a slot again."""
    _update_slots_with(machine, KeepsEpochs)


def _update_slots_with(machine: Machine, update: type[TableUpdate]) -> None:
    """Use another update of the slot table from the first entry on: a member applies entries while it begins."""
    member: Any = machine.member
    begin = member._begin

    def beginning() -> None:
        MembershipState.table_update = update
        try:
            begin()
        finally:
            MembershipState.table_update = TableUpdate
        member.membership.table_update = update

    member._begin = beginning


def grants_unconfirmed(machine: Machine) -> None:
    """Let a leader grant leases at once, whether or not it still leads."""
    member, lease_service = machine.member, _lease_service(machine)
    assert member is not None

    def request(data: bytes) -> None:
        if lease_service._consensus.leads:
            ticket = lease_service.coordinator.request(decode_request(data), member.ports.now_ms())
            if ticket is not None:
                for node, reply in lease_service.coordinator.confirmed(ticket, member.ports.now_ms()):
                    lease_service._answer(node, encode_lease(reply))

    lease_service.request = request


def _lease_service(machine: Machine) -> Any:
    assert machine.member is not None and machine.member.lease_service is not None
    return machine.member.lease_service

"""Views, leases and Raft with one bug each, for `plants`."""

from __future__ import annotations

from typing import Any

from ...cluster.membership.coordinator import MembershipCoordinator
from ...cluster.membership.lease import LeaseHolder
from ...cluster.membership.messages import decode_request, encode_lease
from ...cluster.membership.view import View
from ...cluster.raft.leader import Leadership
from ..engine.machine import Machine


class FormerSelf(LeaseHolder):
    """Goes on in the row of whatever start of the node the view has."""

    def applied(self, view: View) -> None:
        """Takes that start's number for its own."""
        row = view.row(self.node)
        if row is not None:
            self.boot = row.boot
        super().applied(view)


class HearsEverybody(LeaseHolder):
    """Its pings come from beside the loop: it hears all that a ping reaches, and its disk always works."""

    others: tuple[str, ...] = ()

    def hears(self, now_ms: float) -> tuple[str, ...]:
        """All others."""
        return self.others

    def wants_commit(self, now_ms: float) -> bool:
        """No disk is asked."""
        self._committed = True
        return False


class Hasty(MembershipCoordinator):
    """A new leader that knows of no lease of others thinks that there is none."""

    def silent(self, node: str, now_ms: float) -> bool:
        """Who has not spoken to it yet is gone."""
        return (node != self.node and node not in self._heard) or super().silent(node, now_ms)

    def expired(self, node: str, now_ms: float) -> bool:
        """What it has not granted itself was never granted."""
        return node not in self._granted or super().expired(node, now_ms)


class CountsLearners(Leadership):
    """Answers of learners count as if they were voters'."""

    def commit(self) -> bool:
        """By whoever has it."""
        index = int(self._counted(self._match))
        return self._countable(index) and self._log.commit(index)

    def tick(self, now_ms: float) -> bool:
        """By whoever was heard."""
        super().tick(now_ms)
        heard = self._counted(lambda peer: now_ms if peer == self.peer else self._peers[peer].heard_ms)
        return now_ms - heard < self._settings.election_ms[1]

    def confirmed(self) -> tuple[int, ...]:
        """By whoever answered."""
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


def goes_on_as_before(machine: Machine) -> None:
    """The log is not told of this start, and nobody is asked for it."""
    member: Any = machine.member
    holder = member.lease_service.holder
    holder.__class__ = FormerSelf
    known = member.membership.members.get(machine.name)
    member.registrar.tick = lambda: None
    if known is not None:
        holder.process = known.process
        holder.applied(member.view)


def hears_everybody(machine: Machine) -> None:
    """Partial cuts and disks that hang are not told to the leader."""
    holder: Any = _standing(machine).holder
    holder.__class__ = HearsEverybody
    holder.others = tuple([name for name in sorted(machine.network.gates) if name != machine.name])


def serves_at_once(machine: Machine) -> None:
    """Whoever is in the view and has a lease serves, also while it is joining."""
    lease_service, member = _standing(machine), machine.member
    assert member is not None

    def valid() -> bool:
        mine = lease_service.holder.incarnation is not None
        return mine and lease_service.holder.valid(member.ports.now_ms(), member.ports.wall_ms())

    lease_service.valid = valid


def hasty_leader(machine: Machine) -> None:
    """A new leader does not wait until the leases of the former one are over."""
    _standing(machine).coordinator.__class__ = Hasty


def counts_learners(machine: Machine) -> None:
    """A leader counts learners."""
    member: Any = machine.member
    member.consensus.raft.leadership = CountsLearners


def grants_unconfirmed(machine: Machine) -> None:
    """A leader answers at once, whether or not it still leads."""
    member, lease_service = machine.member, _standing(machine)
    assert member is not None

    def request(data: bytes) -> None:
        if lease_service._consensus.leads:
            ticket = lease_service.coordinator.request(decode_request(data), member.ports.now_ms())
            if ticket is not None:
                for node, reply in lease_service.coordinator.confirmed(ticket, member.ports.now_ms()):
                    lease_service._answer(node, encode_lease(reply))

    lease_service.request = request


def _standing(machine: Machine) -> Any:
    assert machine.member is not None and machine.member.lease_service is not None
    return machine.member.lease_service

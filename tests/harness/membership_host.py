"""One machine of `MembershipHarness`: its clocks, its disk, and a process that connects the cores as a member does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from strogoff.cluster.identity import Incarnation
from strogoff.cluster.membership.commands import Boot, encode_command
from strogoff.cluster.membership.messages import LeaseRequest, decode_reply, decode_request, encode_lease
from strogoff.cluster.membership.voters import Transfer
from strogoff.cluster.raft.messages import Configuration

if TYPE_CHECKING:
    from .membership import MembershipHarness

RATES = (0.955, 1.045)
"""The range of clock rates: two clocks differ by less than 10 %."""


class Host:
    """Faults: `kill` and `start`, `pause` or `freeze` (its clock too) and `resume`, `stall` and `unstall`."""

    def __init__(self, world: MembershipHarness, name: str) -> None:
        self.world = world
        self.name = name
        self.rate = world.rng.uniform(*RATES)
        self.disk = f"disk-{name}"
        self.boot = 0
        self.process = ""
        self.up = self.paused = self.frozen = self.stalled = False
        self.leads: int | None = None
        self._frozen_at = self._lost_time = self._wall_step = 0.0
        self._inbox: list[Callable[[Host], None]] = []
        self._saved = b""
        self._owed_commit = False
        self._commit_on_its_way = False
        self._lag_until = 0.0
        self._believes = "a"
        self._tick_due: dict[str, float] = {}

    # -- the machine

    @property
    def running(self) -> bool:
        return self.up and not self.paused and not self.frozen

    @property
    def mono(self) -> float:
        return (self.world.now - self._lost_time) * self.rate

    @property
    def wall(self) -> float:
        return 1e12 + self.world.now * self.rate + self._wall_step

    def start(self) -> None:
        parts = self.world.parts
        self.up, self.paused, self.frozen = True, False, False
        self.boot += 1
        self.process = f"{self.name}{self.boot}"
        self.membership = parts.membership()
        if self._saved:
            self.membership.restore(self._saved)
        self.started_in = self.world.truth.view.id
        self.holder = parts.holder(self.name, self.boot, self.process)
        self._done_in = -1
        self.holder.applied(self.membership.view)
        self.coordinator = parts.coordinator(self.name, self.membership, lambda: int(self.world.now))
        self.leads = None
        self._inbox, self._tick_due = [], {}
        self._owed_commit = self._commit_on_its_way = False
        self.world.later(self.world.rng.uniform(0, 50), partial(self._tick, self.process))

    def kill(self) -> None:
        self._saved = self.membership.snapshot()
        self.up = False
        self.leads = None

    def pause(self) -> None:
        self.paused = True

    def freeze(self) -> None:
        self.frozen, self._frozen_at = True, self.world.now

    def resume(self) -> None:
        if self.frozen:
            self._lost_time += self.world.now - self._frozen_at
        self.paused = self.frozen = False
        inbox, self._inbox = self._inbox, []
        for act in inbox:
            act(self)

    def unstall(self) -> None:
        self.stalled = False
        if self._owed_commit and self.running:
            self._owed_commit = False
            self._committed(self.process)

    def step_wall(self, ms: float) -> None:
        self._wall_step += ms

    # -- the process

    def receive(self, act: Callable[[Host], None]) -> None:
        if self.running:
            act(self)
        else:
            self._inbox.append(act)

    def valid(self) -> bool:
        return self.holder.valid(self.mono, self.wall)

    def _every(self, what: str, ms: float) -> bool:
        if self.mono < self._tick_due.get(what, 0.0):
            return False
        self._tick_due[what] = self.mono + ms
        return True

    def _tick(self, process: str) -> None:
        if not self.up or self.process != process:
            return
        self.world.later(self.world.rng.uniform(10, 60), partial(self._tick, process))
        if not self.running:
            return
        self.holder.turn(self.mono, self.wall)
        if self._every("heartbeat", 250):
            for peer in self.world.names:
                if peer != self.name:
                    self.world.send(self.name, peer, lambda host: host.holder.heard(self.name, host.mono))
        self.follow()
        self._commit()
        self._ask()
        self._boot()
        self._exchange()
        self.decide()

    def _commit(self) -> None:
        if self.holder.wants_commit(self.mono) and not self._commit_on_its_way:
            self._commit_on_its_way = True
            self.world.later(self.world.rng.uniform(1, 8), partial(self._committed, self.process))

    def _committed(self, process: str) -> None:
        if not self.up or self.process != process:
            return
        if self.stalled:
            self._owed_commit = True
            return
        self._commit_on_its_way = False
        self.receive(Host._commit_done)

    def _commit_done(self) -> None:
        self.holder.committed()
        self._ask()

    def _ask(self) -> None:
        request = self.holder.request(self.mono, self.wall)
        if request is None:
            return
        data = encode_lease(request)
        self.world.send(self.name, self._leader, lambda host: host.asked(decode_request(data)))

    def _boot(self) -> None:
        member = self.membership.members.get(self.name)
        if member and member.process != self.process and self._every("boot", 250):
            boot = Boot(self.name, self.disk, self.boot, self.process, f"{self.name}:1")
            self.world.send(self.name, self._leader, lambda host: host.coordinator.submit(boot))

    def _exchange(self) -> None:
        mine = self.holder.incarnation
        if mine is None or self.holder.serving:
            return
        if not self.holder.wants_exchange:
            if self._done_in != self.holder.view.id:
                self._done_in = self.holder.view.id
                self.holder.exchanged(mine, mine.entered_in_view)
        elif self._every("exchange", 100):
            for peer in self.holder.wants_exchange:
                self.world.send(self.name, peer.node, partial(_answer, peer, mine))

    @property
    def _leader(self) -> str:
        """The leader, as this node believes. An old leader continues to believe in itself."""
        return self._believes if self.leads is None else self.name

    # -- the log

    def follow(self) -> None:
        """Apply the entries of the log that a follower has by now."""
        world = self.world
        if world.rng.random() < world.slow / 2:
            self._lag_until = world.now + world.rng.uniform(50, 800)
        near = world.leader == self.name or (
            world.hosts[world.leader].running and world.connected(self.name, world.leader)
        )
        if near:
            self._believes = world.leader
        if near and world.now >= self._lag_until and not self.stalled:
            if self.leads != world.term:
                self.leads = None
            self.catch_up()

    def catch_up(self) -> None:
        before = self.membership.view
        for index in range(self.membership.index, len(self.world.log)):
            self.membership.apply(index + 1, self.world.log[index])
        if self.membership.view != before:
            self.holder.applied(self.membership.view)
            self._commit()
            self.decide()

    # -- the leader

    @property
    def peer(self) -> str:
        return f"{self.name}/{self.disk}"

    @property
    def term(self) -> int:
        assert self.leads is not None
        return self.leads

    @property
    def configuration(self) -> Configuration:
        peers = [f"{host.name}/{host.disk}" for host in self.world.hosts.values()]
        return Configuration(tuple(peers[: len(self.world.voters)]), tuple(peers[len(self.world.voters) :]))

    def answers(self, peer: str) -> bool:
        return self.caught_up(peer)

    def caught_up(self, peer: str) -> bool:
        name = peer.split("/")[0]
        return self.world.hosts[name].running and self.world.connected(name, self.name)

    def elected(self, term: int) -> None:
        self.leads = term
        self.catch_up()  # this also decides: the coordinator may hear of the election later, or never
        if self.world.rng.random() < 0.5:
            self.coordinator.elected(self.mono)

    def asked(self, request: LeaseRequest) -> None:
        if self.leads is not None:
            ticket = self.coordinator.request(request, self.mono)
            if ticket is not None:
                self.world.confirm(self, ticket)

    def confirmed(self, ticket: int) -> None:
        for node, reply in self.coordinator.confirmed(ticket, self.mono):
            self.world.send(self.name, node, partial(_take, encode_lease(reply)))

    def decide(self) -> None:
        if self.leads is None:
            return
        for proposal in self.coordinator.decide(self.mono, self):
            if isinstance(proposal, Transfer):
                if self.leads == self.world.term:
                    self.world.elect(proposal.peer.split("/")[0])
                return
            assert hasattr(proposal, "__struct_config__") and not hasattr(proposal, "action"), proposal
            self.world.propose(self.leads, encode_command(proposal))


def _take(data: bytes, host: Host) -> None:
    host.holder.reply(decode_reply(data), host.mono)


def _answer(asked_as: Incarnation, asker: Incarnation, host: Host) -> None:
    """Answer a full exchange, if this host has applied the view in which the asking node entered."""
    if host.holder.incarnation == asked_as and host.membership.view.id >= asker.entered_in_view:
        host.world.send(host.name, asker.node, lambda back: back.holder.exchanged(asked_as, asker.entered_in_view))

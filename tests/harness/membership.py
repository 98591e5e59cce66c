"""A cluster with only views and leases, on virtual time. The harness knows the true time; the nodes do not.

One ordered log with a changing leader replaces Raft. When the leader changes, an uncommitted entry survives or is lost,
at random. Every node applies the log at its own speed. The clocks of machines run at different rates. Machines are
killed, paused or frozen, their disks stall, and links are cut. After every event the harness checks the leases.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from strogoff.cluster.membership.commands import Command, Join, Settle, encode_command
from strogoff.cluster.membership.coordinator import MembershipCoordinator
from strogoff.cluster.membership.lease import LeaseHolder
from strogoff.cluster.membership.state_machine import MembershipState
from strogoff.sim.engine.loop import VirtualLoop

from .membership_host import Host

CLUSTER = "c"


class Violation(AssertionError):
    """A promise is broken. The text has the true time, in ms."""


class Parts:
    """The cores of the harness. Each planted bug overrides one of them."""

    membership: type[MembershipState] = MembershipState
    holder: type[LeaseHolder] = LeaseHolder
    coordinator: type[MembershipCoordinator] = MembershipCoordinator
    confirms: bool = True
    kinds: tuple[str, ...] = ()
    """The kinds of faults that show the planted bug; empty means all kinds."""


class MembershipHarness:
    """`size` hosts, named a, b, c, ..., all started and joined at time 0. Times are in milliseconds."""

    def __init__(self, seed: int, size: int, parts: type[Parts] = Parts, slow: float = 0.02) -> None:
        self.rng = random.Random(seed)
        self.parts = parts
        self.slow = slow
        self.loop = VirtualLoop()
        self.cuts: set[tuple[str, str]] = set()
        self.names = [chr(ord("a") + i) for i in range(size)]
        self.voters = self.names[: size if size % 2 else size - 1]
        self.log: list[bytes] = []
        self.uncommitted: list[bytes] = []
        self.term = 0
        self.leader = "a"
        self.truth = parts.membership()
        self.views: list[tuple[float, tuple[str, ...]]] = []
        self._lost_ms: float | None = None
        self._patience = 1000.0
        self.hosts = {name: Host(self, name) for name in self.names}
        for host in self.hosts.values():
            host.start()
        first = self.hosts["a"]
        self.commit(Settle(CLUSTER, "a", first.disk, 1, first.process, "a:1"))
        for name in self.names[1:]:
            host = self.hosts[name]
            self.commit(Join(name, host.disk, 1, host.process, f"{name}:1"))
        self.elect("a")
        self._raft()

    # -- time

    @property
    def now(self) -> float:
        """The true clock, in milliseconds."""
        return self.loop.now_s * 1000

    def later(self, delay_ms: float, act: Callable[[], None]) -> None:
        """Call `act` after a delay of the true clock, then check the leases."""
        self.loop.call_later(delay_ms / 1000, partial(self._act, act))

    def _act(self, act: Callable[[], None]) -> None:
        act()
        self.check()

    def run(self, ms: float) -> None:
        """Let time pass, and check the leases after every event."""
        self.loop.run_for(ms / 1000)

    def run_until(self, condition: Callable[[], bool], limit_ms: float) -> float:
        """Let time pass until the condition is true. Returns the milliseconds; raises `Violation` after `limit_ms`."""
        begin = self.now
        while not condition():
            if self.now - begin >= limit_ms:
                state = f"view {self.truth.view}, leader {self.leader}"
                raise Violation(f"at {self.now:.0f}: not within {limit_ms:.0f} ms: {state}")
            self.run(10)
        return self.now - begin

    # -- the network

    def connected(self, a: str, b: str) -> bool:
        """Whether both directions between two nodes work."""
        return (a, b) not in self.cuts and (b, a) not in self.cuts

    def send(self, source: str, target: str, act: Callable[[Host], None]) -> None:
        """Deliver a message after a random delay, unless the link is cut then. A paused host gets it later."""
        if (source, target) in self.cuts:
            return
        delay = self.rng.uniform(0.5, 5)
        if self.rng.random() < self.slow:
            delay = self.rng.uniform(50, 1500)
        host = self.hosts[target]
        process = host.process

        def arrive() -> None:
            if (source, target) not in self.cuts and host.up and host.process == process:
                host.receive(act)

        self.later(delay if source != target else 0.1, arrive)

    # -- the replacement of Raft

    def commit(self, command: Command) -> None:
        """Put a command into the log at once."""
        self._append(encode_command(command))

    def _append(self, data: bytes) -> None:
        before = self.truth.view
        self.log.append(data)
        self.truth.apply(len(self.log), data)
        if self.truth.view != before:
            self.views.append((self.now, self.truth.view.nodes))

    def propose(self, term: int, data: bytes) -> None:
        """Append a leader's proposal to the log, uncommitted. A proposal from an old term is lost."""
        if term == self.term:
            self.uncommitted.append(data)

    def has_quorum(self, name: str, disks: bool) -> bool:
        """Whether a majority of voters runs and is connected with the node. With `disks` their disks must work."""
        near = [v for v in self.voters if v == name or self.connected(v, name)]
        near = [v for v in near if self.hosts[v].running and not (disks and self.hosts[v].stalled)]
        return self.hosts[name].running and len(near) * 2 > len(self.voters)

    def _raft(self) -> None:
        leader = self.hosts[self.leader]
        blocked = leader.stalled and bool(self.uncommitted)
        if leader.leads == self.term and self.has_quorum(self.leader, False) and not blocked:
            self._lost_ms = None
            self._patience = self.rng.uniform(800, 1200)
            if self.uncommitted and self.has_quorum(self.leader, True):
                todo, self.uncommitted = self.uncommitted, []
                for data in todo:
                    self._append(data)
                leader.catch_up()
        else:
            self._lost_ms = self.now if self._lost_ms is None else self._lost_ms
            if self.now - self._lost_ms > self._patience:
                able = [v for v in self.voters if self.has_quorum(v, True) and not self.hosts[v].stalled]
                if able:
                    self.elect(self.rng.choice(able))
        self.later(self.rng.uniform(5, 25), self._raft)

    def elect(self, name: str) -> None:
        """Make a node the leader of the next term. A random number of uncommitted entries survives."""
        for data in self.uncommitted[: self.rng.randint(0, len(self.uncommitted))]:
            self._append(data)
        self.uncommitted = []
        self.term += 1
        self.leader = name
        self._lost_ms = None
        self.hosts[name].elected(self.term)

    def confirm(self, host: Host, ticket: int) -> None:
        """Ask a majority whether this host still leads. It decides after half a round trip."""
        term, process = host.leads, host.process
        away = self.rng.uniform(0.5, 5)
        if self.rng.random() < self.slow:
            away = self.rng.uniform(50, 400)
        answers: list[bool] = []

        def ask() -> None:
            quorum = self.has_quorum(host.name, False) and self.term == term and self.leader == host.name
            answers.append(quorum or not self.parts.confirms)

        def hear() -> None:
            if answers[0] and host.up and host.process == process:
                host.receive(lambda _: host.confirmed(ticket) if host.leads == term else None)

        self.later(away, ask)
        self.later(away * 2, hear)

    # -- checks

    def check(self) -> None:
        """Check the promises of leases, at the true time. Raises `Violation`."""
        holders = [host for host in self.hosts.values() if host.running and host.valid()]
        for x in holders:
            mine = x.holder.incarnation
            if mine not in self.truth.view.incarnations:
                raise Violation(f"at {self.now:.0f}: {x.name} has a lease as {mine} beside {self.truth.view}")
            if mine.entered_in_view <= x.started_in:
                raise Violation(f"at {self.now:.0f}: {x.name} has the role of a former start: {mine}")
            for y in holders:
                if x.holder.serving and y.holder.serving and mine not in y.holder.view.incarnations:
                    raise Violation(f"at {self.now:.0f}: {x.name} serves as {mine} and {y.name} does not know it")

    def is_whole(self) -> bool:
        """Whether all nodes serve, know that, and have leases."""
        hosts = self.hosts.values()
        return self.truth.whole and all(host.running and host.holder.serving and host.valid() for host in hosts)

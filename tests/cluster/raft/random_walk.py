"""Random walks of a cluster under faults, and a simple model that checks them: figure 3 of section 5.2, literally.

One seed decides everything. Messages are lost, doubled, delayed and reordered; peers crash in the middle of their work,
restart, and are cut off; the configuration changes, logs are compacted. Then all faults end, and the cluster must make
progress again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from strogoff.cluster.raft.core import Raft
from strogoff.cluster.raft.interface import ChangePending, NotLeader, Ready, Rejected, Settings
from strogoff.cluster.raft.messages import Change, Kind

from .raft_harness import Peer, RaftHarness, saved_voters

SETTINGS = [
    Settings(election_ms=(800, 1200), max_append_bytes=size, max_inflight=3, tail=2, caught_up=3) for size in (1, 40)
]
"""Elections that leave more time for work than those of production: a walk gets further."""


class Broken(AssertionError):
    """A property of figure 3 does not hold."""


class Walk(RaftHarness):
    """A world that takes random steps and checks each of them."""

    def __init__(
        self, seed: int, voters: int, spare: int = 0, learners: int = 0, core: type[Raft] = Raft, eager: bool = False
    ) -> None:
        super().__init__(seed, SETTINGS[seed // 7 % 2], core)
        self.eager = eager
        names = [chr(ord("a") + number) for number in range(voters + learners + spare)]
        known = saved_voters(*names[:voters], learners=tuple(names[voters : voters + learners]))
        self.leader_of: dict[int, str] = {}  # term -> its leader
        self.chosen: dict[int, tuple[int, int, bytes]] = {}  # index -> term, kind, data: applied by some peer
        self.chosen_in: dict[int, int] = {}  # index -> the lowest term in which some peer knew that it is committed
        self.index_of: dict[bytes, int] = {}  # command -> the index at which it was applied
        self.floor: dict[int, int] = {}  # ticket -> the known commit index when it was requested
        self.counter = 0
        for name in names:
            self.add(name, known if name in names[: voters + learners] else None)
        rng = self.rng  # each walk has its own mix of faults
        steps: list[tuple[Callable[[], None], float]] = [
            (self.pass_time, rng.choice((2, 4, 8))),
            (self.wait_long, rng.choice((0, 0.1, 0.5))),
            (self.deliver_one, rng.choice((10, 20, 30))),
            (self.take_one, 6),
            (self.finish_one, 14),
            (self.propose_one, 3),
            (self.drop_one, rng.choice((0, 1, 4))),
            (self.double_one, rng.choice((0, 1))),
            (self.crash_one, rng.choice((0, 0.2, 0.6))),
            (self.crash_leader, rng.choice((0, 0.2, 1))),
            (self.restart_one, 0.8),
            (self.cut_one, rng.choice((0, 0.1, 0.5))),
            (self.split, rng.choice((0, 0.3))),
            (self.heal, rng.choice((0.1, 0.3))),
            (self.confirm_one, 1),
            (self.compact_one, rng.choice((0, 0.5))),
            (self.change_one, rng.choice((0, 1)) if spare else 0),
            (self.transfer_one, rng.choice((0, 0.2))),
        ]
        self.steps = [step for step, _ in steps]
        self.weights = [weight for _, weight in steps]
        self.reorder = rng.random() < 0.7

    def walk(self, steps: int) -> None:
        """Take this number of steps, then heal, then check liveness."""
        for step in self.rng.choices(self.steps, self.weights, k=steps):
            step()
            self.check_leaders()
        self.check_logs()
        self.revive()

    # Steps

    def _some(self, up: bool = True) -> Peer | None:
        peers = [peer for peer in self.peers.values() if peer.up == up]
        return self.rng.choice(peers) if peers else None

    def _leader(self) -> Peer | None:
        leaders = self.leaders()
        return self.peers[self.rng.choice(leaders)] if leaders else None

    def pass_time(self) -> None:
        self._pass(self.rng.choice((1, 20, 100, 300)))

    def wait_long(self) -> None:
        """Wait until every peer has forgotten the leader."""
        self._pass(1500)

    def _pass(self, duration_ms: float) -> None:
        self.now_ms += duration_ms
        for peer in self.peers.values():
            if peer.up and peer.raft.next_deadline_ms <= self.now_ms:
                peer.raft.tick(self.now_ms)

    def deliver_one(self) -> None:
        if self.flying:
            self.deliver(self.flying.pop(self.rng.randrange(len(self.flying)) if self.reorder else 0))

    def take_one(self) -> None:
        if peer := self._some():
            peer.take()

    def finish_one(self) -> None:
        peer = self._some()
        if peer and peer.take():
            peer.finish()

    def propose_one(self) -> None:
        if peer := self._leader():
            self.counter += 1
            try:
                peer.raft.propose(b"command %d" % self.counter)
            except NotLeader:  # it is handing over
                assert peer.raft._leading and peer.raft._leading.transferee

    def drop_one(self) -> None:
        if self.flying:
            self.flying.pop(self.rng.randrange(len(self.flying)))

    def double_one(self) -> None:
        if self.flying:
            self.flying.append(self.rng.choice(self.flying))

    def crash_one(self) -> None:
        busy = [peer for peer in self.peers.values() if peer.taken]  # the interesting ones
        if peer := self.rng.choice(busy) if busy else self._some():
            self._crash(peer)

    def crash_leader(self) -> None:
        if peer := self._leader():
            self._crash(peer)

    def _crash(self, peer: Peer) -> None:
        if peer.taken and self.rng.random() < 0.5:
            peer.disk.save(peer.taken)  # it was written, and no message about it was sent
        peer.crash()

    def restart_one(self) -> None:
        if peer := self._some(up=False):
            peer.restart()

    def cut_one(self) -> None:
        self.cut += [self.rng.choice([(a, b) for a in self.peers for b in self.peers if a != b])]

    def split(self) -> None:
        """Split the peers into two sides that do not reach each other."""
        self.heal()
        self.isolate(*self.rng.sample(list(self.peers), self.rng.randint(1, len(self.peers) // 2)))

    def confirm_one(self) -> None:
        if peer := self._leader():
            ticket = len(self.floor)
            self.floor[ticket] = max(self.chosen, default=0)
            peer.raft.confirm(ticket)

    def compact_one(self) -> None:
        peer = self._some()
        if peer and peer.taken is None and peer.raft.applied_index:
            peer.raft.compact(peer.raft.applied_index, peer.machine.snapshot())

    def change_one(self) -> None:
        if leader := self._leader():
            action = self.rng.choice(("learner", "voter", "voter", "remove"))
            with suppress(ChangePending, Rejected, NotLeader):  # the rules of changes have tests of their own
                leader.raft.change(Change(action, self.rng.choice(list(self.peers)), self._more()))  # type: ignore[arg-type]

    def _more(self) -> tuple[Change, ...]:
        """A third of the entries change another peer, too."""
        if self.rng.random() < 0.67:
            return ()
        action = self.rng.choice(("learner", "voter", "voter", "remove"))
        return (Change(action, self.rng.choice(list(self.peers))),)  # type: ignore[arg-type]

    def transfer_one(self) -> None:
        if leader := self._leader():
            with suppress(Rejected, NotLeader):  # to itself, to a learner, or twice
                leader.raft.transfer(self.rng.choice(list(self.peers)))

    # The model

    def done(self, peer: Peer, ready: Ready) -> None:
        """State machine safety: all peers apply the same entry at an index, and no command at two."""
        before = peer.machine.applied[: len(peer.machine.applied) - len(ready.committed)]
        last = before[-1][0] if before else None
        for committed in ready.committed:
            content = (committed.term, committed.kind, committed.data)
            if last is not None and committed.index != last + 1:
                raise Broken(f"{peer.name} applied {committed.index} after {last}")
            last = committed.index
            if self.chosen.setdefault(committed.index, content) != content:
                raise Broken(f"{peer.name} applied {content} at {committed.index}, not {self.chosen[committed.index]}")
            if committed.kind == Kind.COMMAND and self.index_of.setdefault(committed.data, last) != last:
                raise Broken(f"{committed.data!r} was applied twice")
            # What a peer applies was known to be committed in its own term at the latest.
            known = self.chosen_in.get(committed.index, peer.raft.term)
            self.chosen_in[committed.index] = min(known, peer.raft.term)
        for ticket in ready.confirmed:
            reached = peer.machine.applied[-1][0] if peer.machine.applied else 1
            if reached < self.floor[ticket]:
                raise Broken(f"ticket {ticket} confirmed a leader that lags behind {self.floor[ticket]}")

    def check_leaders(self) -> None:
        """Election safety: one leader per term. Leader completeness: it has all entries committed before."""
        for name in self.leaders():
            raft = self[name]
            first = self.leader_of.get(raft.term)
            if first is None:
                self.leader_of[raft.term] = name
                for index, (term, _, _) in self.chosen.items():
                    if self.chosen_in[index] < raft.term and index > raft._log.base and raft._log.term(index) != term:
                        raise Broken(f"{name} leads term {raft.term} without entry {index} of term {term}")
            elif first != name:
                raise Broken(f"{first} and {name} lead term {raft.term}")

    def check_logs(self) -> None:
        """Log matching: two logs with the same entry agree in all earlier entries."""
        logs = [dict(self.log(name)) for name in self.peers]
        for one in logs:
            for other in logs:
                same = max((index for index in one if one[index] == other.get(index)), default=0)
                for index in one:
                    if index <= same and index in other and one[index] != other[index]:
                        raise Broken(f"logs agree at {same} and differ at {index}")

    def revive(self) -> None:
        """Liveness: after the healing there is one leader, and all peers that it knows apply its proposals."""
        self.heal()
        self.flying.clear()
        for peer in self.peers.values():
            if not peer.up:
                peer.restart()
        self.run(15_000)
        if len(self.leaders()) != 1:
            raise Broken(f"15 s after healing the leaders are {self.leaders()}")
        leader = self[self.leaders()[0]]
        leader.propose(b"alive")
        self.run(1_000)
        for name in leader.configuration.peers:
            if self.peers[name].machine.commands[-1:] != [b"alive"]:
                raise Broken(f"{name} did not follow {leader.peer}")
        self.check_leaders()
        self.check_logs()
        applied = [self.peers[name].machine.applied for name in leader.configuration.peers]
        if any(other != applied[0] for other in applied):
            raise Broken("machines differ")

"""Random walks of whole members through cuts, kills, power losses and clock jumps: each lease
holder knows all others.
"""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from strogoff.cluster.links.ports import Lane
from tests.harness.members import Machine, MemberHarness


class Walk:
    """A cluster of four nodes under faults."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.cluster = MemberHarness(4)
        self.sent: dict[tuple[str, str], int] = {}
        self.steps = [
            self.cut,
            self.one_way,
            self.heal,
            self.kill,
            self.start,
            self.freeze,
            self.stall,
            self.free,
            self.send,
        ]

    def pair(self) -> tuple[Machine, Machine]:
        one, other = self.rng.sample(self.cluster.machines, 2)
        return one, other

    def cut(self) -> None:
        one, other = self.pair()
        self.cluster.network.cut(one.name, other.name)

    def one_way(self) -> None:
        one, other = self.pair()
        self.cluster.network.one_way(one.name, other.name)

    def heal(self) -> None:
        self.cluster.network.heal()

    def kill(self) -> None:
        machine = self.pair()[0]
        if machine.up:
            machine.kill(power=self.rng.random() < 0.5)

    def start(self) -> None:
        for machine in self.cluster.machines:
            if not machine.up:
                machine.start()
                return

    def freeze(self) -> None:
        self.pair()[0].wall_off_ms += self.rng.choice([-3000, 700, 5000])

    def stall(self) -> None:
        machine = self.pair()[0]
        if machine.up:
            machine.disks[self.rng.randrange(2)].stall_until = inf

    def free(self) -> None:
        for machine in self.cluster.machines:
            for disk in machine.disks:
                disk.stall_until = 0.0

    def send(self) -> None:
        one, other = self.pair()
        if one.up:
            number = self.sent[one.name, other.name] = self.sent.get((one.name, other.name), 0) + 1
            one.member.links.send(other.name, Lane.PUBLISH, b"%d/%d" % (one.boot, number))

    def check(self) -> None:
        """Each of two lease holders is in the view of the other, so that neither answers without
        the other (P4; H-05).
        """
        leased = [machine for machine in self.cluster.machines if machine.serving]
        for one in leased:
            names = one.member.view.nodes
            for other in leased:
                assert other.name in names, (one.name, one.member.view, other.name, other.member.view)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.rng.choice(self.steps)()
            for _ in range(self.rng.randrange(40)):
                self.cluster.pass_s(0.02)
                self.check()

    def end(self) -> None:
        """All faults are over: all nodes serve, and sent items arrived at most once at each process, in order."""
        self.heal()
        self.free()
        for machine in self.cluster.machines:
            if not machine.up:
                machine.start()
        self.cluster.whole()
        self.cluster.pass_s(1.0)
        for machine in self.cluster.machines:
            for sender in {node for node, _ in machine.listener.taken}:
                taken = [payload.split(b"/") for node, payload in machine.listener.taken if node == sender]
                order = [(int(boot), int(number)) for boot, number in taken]
                assert order == sorted(set(order)), (sender, machine.name, order)


@pytest.mark.parametrize("seed", range(6))
def test_leases_exclude_each_other_and_the_cluster_recovers_after_faults(seed: int) -> None:
    walk = Walk(seed)
    walk.run(40)
    walk.end()

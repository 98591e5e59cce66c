"""Whole members walked through cuts, kills, power losses and clock jumps: who has a lease knows all who have one."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from strogoff.cluster.links.ports import Lane
from tests.harness.members import Machine, MemberHarness


class Walk:
    """A company of four under faults."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.company = MemberHarness(4)
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
        one, other = self.rng.sample(self.company.seats, 2)
        return one, other

    def cut(self) -> None:
        one, other = self.pair()
        self.company.network.cut(one.name, other.name)

    def one_way(self) -> None:
        one, other = self.pair()
        self.company.network.one_way(one.name, other.name)

    def heal(self) -> None:
        self.company.network.heal()

    def kill(self) -> None:
        seat = self.pair()[0]
        if seat.up:
            seat.kill(power=self.rng.random() < 0.5)

    def start(self) -> None:
        for seat in self.company.seats:
            if not seat.up:
                seat.start()
                return

    def freeze(self) -> None:
        self.pair()[0].wall_off_ms += self.rng.choice([-3000, 700, 5000])

    def stall(self) -> None:
        seat = self.pair()[0]
        if seat.up:
            seat.disks[self.rng.randrange(2)].stall_until = inf

    def free(self) -> None:
        for seat in self.company.seats:
            for disk in seat.disks:
                disk.stall_until = 0.0

    def send(self) -> None:
        one, other = self.pair()
        if one.up:
            number = self.sent[one.name, other.name] = self.sent.get((one.name, other.name), 0) + 1
            one.member.links.send(other.name, Lane.PUBLISH, b"%d/%d" % (one.boot, number))

    def check(self) -> None:
        """Two leases: each is in the view of the other, so that neither answers without the other (P4; H-05)."""
        leased = [seat for seat in self.company.seats if seat.serving]
        for one in leased:
            names = one.member.view.nodes
            for other in leased:
                assert other.name in names, (one.name, one.member.view, other.name, other.member.view)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.rng.choice(self.steps)()
            for _ in range(self.rng.randrange(40)):
                self.company.pass_s(0.02)
                self.check()

    def end(self) -> None:
        """All is well again: all serve, and what was sent arrived at most once to each process, in order."""
        self.heal()
        self.free()
        for seat in self.company.seats:
            if not seat.up:
                seat.start()
        self.company.whole()
        self.company.pass_s(1.0)
        for seat in self.company.seats:
            for sender in {node for node, _ in seat.guest.taken}:
                taken = [payload.split(b"/") for node, payload in seat.guest.taken if node == sender]
                order = [(int(boot), int(number)) for boot, number in taken]
                assert order == sorted(set(order)), (sender, seat.name, order)


@pytest.mark.parametrize("seed", range(6))
def test_leases_know_each_other_and_all_ends_well(seed: int) -> None:
    walk = Walk(seed)
    walk.run(40)
    walk.end()

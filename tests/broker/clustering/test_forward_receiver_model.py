"""Random items, answers, disks and restarts: what is acknowledged is safe, and what is safe is acknowledged."""

from __future__ import annotations

from random import Random

import pytest

from strogoff.broker.routing.remote import RemoteMembers
from strogoff.broker.routing.remote_table import RemoteMatch
from tests.broker.clustering.test_forward_receiver import Target

NODES = ("n3", "n4", "n5")


class Walk:
    """The origin n9 and its target. An item is for clean sessions ("c"), for the disk ("t"), for the member of a group
    at another node, or for the disk and that member ("n5")."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.target = Target()
        self.items: list[str] = []
        self.early: set[int] = set()
        self.done = 0
        self.held = False
        self.relayed: set[int] = set()
        """The items that the member's node has acknowledged."""
        self.begin()
        self.target.persistent("reader", 5).subscribe(("t", 1), ("n5", 1))

    def begin(self) -> None:
        target = self.target
        target.receiver.ack_early = lambda origin, seqs, boot: self.early.update(seqs)
        target.matches.update({node: RemoteMatch((), (RemoteMembers("x", "g", node, 1, 0),)) for node in NODES})
        self.acked = dict.fromkeys(NODES, 0)
        self.done = max(self.done, target.receiver.watermark("n9", 1))
        target.client("clean", 5).subscribe(("c", 1))
        for seq in range(self.done + 1, len(self.items) + 1):
            if seq not in self.early:
                self.take(seq)

    def take(self, seq: int) -> None:
        topic = self.items[seq - 1]
        groups = ("$share/x/g",) if topic in NODES else ()
        self.target.take(seq, b"%d" % seq, topic=topic, plain=topic not in ("n3", "n4"), groups=groups)

    def step(self) -> None:
        rng, target = self.rng, self.target
        action = rng.random()
        if action < 0.5:
            self.items.append(rng.choice(["c", "t", "t", *NODES]))
            self.take(len(self.items))
        elif action < 0.6:
            self.held = not self.held
            if self.held:
                target.hold_disk()
            else:
                target.free_disk()
        elif action < 0.75:
            self.answer(rng.choice(["n3", "n4", "n4", "n5"]))
        elif action < 0.94:
            target.pass_s(rng.choice([0.1, 0.4, 1.0]))
        else:
            self.held = False
            target.again(rng.random() < 0.5)
            self.begin()
        self.check()

    def answer(self, node: str) -> None:
        """The node acknowledges some of what was relayed to it."""
        before = self.acked[node]
        sent = self.target.links.sent.get(node, [])
        if len(sent) > before:
            self.acked[node] = upto = self.rng.randint(before + 1, len(sent))
            self.relayed.update(int(each.message.payload) for _, _, each in sent[before:upto])
            self.target.acked(node, upto)

    def check(self) -> None:
        self.done = max([self.done, *self.target.acknowledged()])
        for seq, topic in enumerate(self.items, 1):
            if (seq <= self.done or seq in self.early) and topic in NODES:
                assert seq in self.relayed, f"{seq} was acknowledged and is not at {topic}"

    def end(self) -> None:
        """The disk is well, and the other nodes answer, n3 last."""
        self.target.free_disk()
        for nodes in (("n4", "n5"), ("n3",)):
            for node in nodes * 40:
                self.answer(node)
            self.target.pass_s(1.0)
            self.check()
            for seq, topic in enumerate(self.items, 1):
                waits = topic == "n3" and "n3" not in nodes
                assert seq <= self.done or seq in self.early or waits, f"{seq} for {topic} has no acknowledgement"
        self.target.again(power=True)
        found = [int(each.payload) for each in self.target.persistent("reader", 5).drain()]
        assert found == [seq for seq, topic in enumerate(self.items, 1) if topic in ("t", "n5")]


@pytest.mark.parametrize("ten", range(6))
def test_what_is_acknowledged_is_safe(ten: int) -> None:
    for seed in range(10 * ten, 10 * ten + 10):
        walk = Walk(seed)
        for _ in range(60):
            walk.step()
        walk.end()

"""Random walks of two nodes under faults, and the promises at their end.

Each walk sends on all lanes both ways while streams break, paths are cut one way or both, delays change, processes are
killed and started again, disks are lost, and items are voided. Some items travel in pieces, some are refused for a
while, some cannot be read, and some are acknowledged before earlier ones. `faulty` names a bug to plant, to prove that
the walks would find it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

from strogoff.cluster.links.lane import ReceiveLane, SendLane
from strogoff.cluster.links.links import Lane, LinkSettings
from strogoff.cluster.links.ports import Refuse, Unreadable

from .link_harness import Disk, LinkHarness, Node, join

SETTINGS = LinkSettings(
    publish_window_bytes=200,
    append_window_bytes=200,
    replica_window_bytes=200,
    gather_bytes=100,
    piece_bytes=64,
    max_item_bytes=1000,
)
UNREADABLE = 37
"""Each item whose number is a multiple of this cannot be read by anybody."""


class Walk:
    """One walk. `run` raises `AssertionError` when a promise is broken."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.world = LinkHarness(seed, SETTINGS)
        self.nodes = {name: self._start(name, 1, Disk(f"disk of {name}")) for name in "ab"}
        self.disks: list[tuple[str, Disk]] = [(name, node.disk) for name, node in self.nodes.items()]
        self.voided: set[bytes] = set()
        self.sent: dict[tuple[str, int, Lane], list[bytes]] = {}
        """Sender, its boot, lane: what was sent, in order."""
        self._number = 0
        join(*self.nodes.values())

    def _start(self, name: str, boot: int, disk: Disk) -> Node:
        node = self.world.node(name, boot, disk, self.rng.choice([None, 0.02, 0.3]))
        last: dict[tuple[int, int], int] = {}

        def seen(sender: str, lane: int, _seq: int, payload: bytes) -> None:
            if self.rng.random() < 0.02:
                raise Refuse("not now")
            if int(payload) % UNREADABLE == 0:
                raise Unreadable("no node reads this")
            peer = node.links._in[sender].peer
            assert peer is not None
            key = (peer.boot, lane)
            assert int(payload) > last.get(key, 0), f"{lane} out of order or twice in one process"
            last[key] = int(payload)
            if lane != Lane.METADATA and self.rng.random() < 0.05:  # only this process needs it
                self.voided.add(payload)
                node.links.ack_early(sender, Lane(lane), [_seq], peer.boot)

        node.on_deliver = seen
        return node

    def run(self, steps: int = 60) -> None:
        """Run the faults, heal the network, wait until all is delivered, and check the promises."""
        for _ in range(steps):
            self._step()
            self.world.loop.run_for(self.rng.choice([0.0, 0.005, 0.05, 0.5]))
        self.world.network.heal()
        self.world.loop.run_for(12)
        for _ in range(10):  # refusals and small windows stretch it
            if self._waits():
                self.world.loop.run_for(5)
        self.check()

    def _waits(self) -> bool:
        return any(
            node.links.waiting_items(other, lane) for node in self.nodes.values() for other in "ab" for lane in Lane
        )

    def _step(self) -> None:
        rng, network = self.rng, self.world.network
        name = rng.choice("ab")
        other = "b" if name == "a" else "a"
        action = rng.random()
        if action < 0.6:
            for _ in range(rng.choice((1, 4, 12))):
                self._send(name, other)
        elif action < 0.66:
            self._send(name, other, 1000)
            for _ in range(rng.randint(0, 30)):  # the break may come in the middle of the item
                self.world.loop.turn()
            network.drop("a", "b")
        elif action < 0.71:
            network.one_way(name, other)
        elif action < 0.76:
            network.cut(name, other)
        elif action < 0.86:
            network.heal()
        elif action < 0.91:
            network.delay(name, other, rng.choice([0.0, 0.003, 0.2]))
        elif action < 0.97:
            self._restart(name, lost=rng.random() < 0.2)
        else:
            self._void(name, other)

    def _send(self, name: str, other: str, size: int | None = None) -> None:
        node = self.nodes[name]
        lane = self.rng.choice(list(Lane))
        self._number += 1
        payload = (b"%d" % self._number).ljust(self.rng.choice([0, 0, 0, 0, 0, 60, 300]) if size is None else size)
        node.links.send(other, lane, payload)
        self.sent.setdefault((name, node.boot, lane), []).append(payload)

    def _restart(self, name: str, lost: bool) -> None:
        old = self.nodes[name]
        old.crash()
        disk = old.disk
        if lost:
            disk = Disk(f"disk {self.world.count()} of {name}")
            self.disks.append((name, disk))
        self.nodes[name] = self._start(name, old.boot + 1, disk)
        self.nodes[name].links.set_peers({other: f"{other}:1883" for other in "ab" if other != name})

    def _void(self, name: str, other: str) -> None:
        node = self.nodes[name]
        for lane in (Lane.REPLICA, Lane.APPEND, Lane.PUBLISH):
            half = node.links._out[other].lanes[lane]
            seqs = [seq for seq in half._items if self.rng.random() < 0.5]
            self.voided.update(half._items[seq] for seq in seqs)
            node.links.void(other, lane, seqs)

    def check(self) -> None:
        """No item waits; each disk has each item at most once and in order; all items of the living
        processes arrived.
        """
        for name, node in self.nodes.items():
            other = "b" if name == "a" else "a"
            assert not any("malformed" in text for text in node.logs), f"{name}: {node.logs}"
            for lane in Lane:
                assert node.links.waiting_items(other, lane) == 0, f"{name}: {lane.name} still waits"
        for receiver, disk in self.disks:
            self._check_disk(receiver, disk)
        for (sender, boot, lane), payloads in self.sent.items():
            if lane == Lane.METADATA or boot != self.nodes[sender].boot:
                continue
            taken = {item[4] for receiver, disk in self.disks if receiver != sender for item in disk.taken}
            readable = [payload for payload in payloads if int(payload) % UNREADABLE]
            missing = [payload for payload in readable if payload not in taken | self.voided]
            assert missing == [], f"{sender} {Lane(lane).name}: acknowledged and on no disk: {missing}"

    def _check_disk(self, receiver: str, disk: Disk) -> None:
        for (sender, boot, lane), payloads in self.sent.items():
            if sender == receiver:
                continue
            taken = [item[4] for item in disk.taken if item[:3] == (sender, boot, lane)]
            assert taken == [payload for payload in payloads if payload in set(taken)], f"order at {receiver}"
            assert len(taken) == len(set(taken)), f"twice at {receiver}"


@contextmanager
def faulty(bug: str) -> Iterator[None]:
    """Plant a bug."""
    if bug == "take after a gap":
        take = ReceiveLane.take

        def careless(self: ReceiveLane, run: object) -> Iterator[tuple[int, bytes]]:
            self.received = max(self.received, run.first - 1)  # type: ignore[attr-defined]
            return take(self, run)  # type: ignore[arg-type]

        def skip(self: ReceiveLane, seq: int) -> None:
            """The refused item counts as received."""

        with patch.object(ReceiveLane, "take", careless), patch.object(ReceiveLane, "refuse", skip):
            yield
    elif bug == "a held lane takes what comes behind":

        def follows(self: ReceiveLane, first: int, _what: str) -> bool:
            if self.held:
                self.received = max(self.received, first - 1)
            return True

        with patch.object(ReceiveLane, "_follows", follows):
            yield
    elif bug == "a broken item goes on where it was":
        resume = SendLane.resume

        def half_way(self: SendLane, watermark: int) -> int:
            offset = self._offset
            try:
                return resume(self, watermark)
            finally:
                self._offset = offset if self.sent == watermark else 0

        with patch.object(SendLane, "resume", half_way):
            yield
    elif bug == "a lane that was asked for stays held":
        with patch.object(SendLane, "rewind", lambda self, first: None):
            yield
    elif bug == "an item that cannot be read is not acknowledged":
        with patch.object(ReceiveLane, "set_aside", lambda self, seq: None):
            yield
    elif bug == "watermark only in memory":
        with patch.object(Node, "watermark", lambda *_: 0):
            yield
    else:
        assert bug == "none", bug
        yield


def broken_in(bug: str, seeds: range) -> list[int]:
    """The seeds whose walk breaks a promise."""
    found = []
    with faulty(bug):
        for seed in seeds:
            try:
                Walk(seed).run()
            except AssertionError:
                found.append(seed)
    return found

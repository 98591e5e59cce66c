"""For tests of links: nodes on virtual time over the memory network, each with a listener that records its events."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from strogoff.cluster.links.hello import NEWEST, OLDEST
from strogoff.cluster.links.links import Lane, LinkPorts, Links, LinkSettings, PeerInfo, SetAside
from strogoff.cluster.transport.memory_network import MemoryNetwork
from strogoff.cluster.transport.memory_wire import MemoryTransport
from strogoff.sim.engine.loop import VirtualLoop


class Disk:
    """The durable state of a receiver: the watermarks of PUBLISH and APPEND."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.watermarks: dict[tuple[str, str, int, int], int] = {}
        self.taken: list[tuple[str, int, int, int, bytes]] = []
        """Node, boot, lane, number and payload of what became durable, in order."""


class Node:
    """One process: its `Links` and their listener. An item is durable after `commit_s`; None: at once."""

    def __init__(self, world: LinkHarness, name: str, boot: int, disk: Disk, commit_s: float | None = None) -> None:
        self.world = world
        self.name = name
        self.boot = boot
        self.disk = disk
        self.commit_s = commit_s
        self.alive = True
        self.events: list[tuple[object, ...]] = []
        self.logs: list[str] = []
        self.aside: list[SetAside] = []
        self.on_deliver: Callable[[str, int, int, bytes], None] | None = None
        self.on_up: Callable[[str], None] | None = None
        self.refuses: dict[str, str] = {}
        self.has_applied = 0
        self.stamp = 0
        self.observed: list[int] = []
        """The stamps that came with frames."""
        loop = world.loop
        self.transport = MemoryTransport(world.network, name)
        ports = LinkPorts(
            self.transport,
            lambda: loop.now_s * 1000,
            lambda delay_s, function: loop.call_later(delay_s, lambda: function() if self.alive else None),
            lambda function: loop.call_soon(lambda: function() if self.alive else None),
            world.rng,
            lambda level, text: self.logs.append(text),
            set_aside=self.aside.append,
            stamp=lambda: self.stamp,
            observe=self.observed.append,
        )
        newest, oldest = world.versions(name)
        process = f"process {world.count()}"
        me = PeerInfo(name, boot, disk.name, process, "cluster", f"{name}:1883", newest, oldest)
        self.links = Links(me, ports, self, world.settings)
        self.transport.listen(f"{name}:1883", self.links.accept)

    def crash(self) -> None:
        """`kill -9`: items that are not durable are lost."""
        self.alive = False
        self.transport.shut()
        self.links.close()

    # The listener

    def check(self, hello: PeerInfo) -> str | None:
        return self.refuses.get(hello.node)

    def applied(self) -> int:
        return self.has_applied

    def watermark(self, node: str, disk: str, boot: int, lane: int) -> int:
        return self.disk.watermarks.get((node, disk, boot, lane), 0)

    def datagram(self, node: str, kind: int, data: bytes) -> None:
        self.events.append(("datagram", node, kind, data))

    def deliver(self, node: str, lane: int, seq: int, payload: bytes) -> None:
        self.events.append(("item", node, lane, seq, payload))
        if self.on_deliver is not None:
            self.on_deliver(node, lane, seq, payload)
        peer = self.links._in[node].peer
        assert peer is not None
        key = (node, peer.disk, peer.boot, lane)
        if lane == Lane.METADATA:
            self.links.ack(node, Lane.METADATA, seq)
        elif self.commit_s is None:
            self._commit(key, seq, payload)
        else:
            self.world.loop.call_later(self.commit_s, lambda: self._commit(key, seq, payload))

    def _commit(self, key: tuple[str, str, int, int], seq: int, payload: bytes) -> None:
        if self.alive:
            node, _, boot, lane = key
            assert seq > self.disk.watermarks.get(key, 0), "committed twice"
            self.disk.taken.append((node, boot, lane, seq, payload))
            self.disk.watermarks[key] = seq
            self.links.ack(node, Lane(lane), seq, boot)

    def acked(self, node: str, lane: int, upto: int) -> None:
        self.events.append(("acked", node, lane, upto))

    def acked_early(self, node: str, lane: int, seqs: list[int]) -> None:
        self.events.append(("early", node, lane, seqs))

    def up(self, node: str, hello: PeerInfo) -> None:
        self.events.append(("up", node, hello.process))
        if self.on_up is not None:
            self.on_up(node)

    def down(self, node: str, reason: str) -> None:
        self.events.append(("down", node, reason))

    def heard(self, node: str) -> None:
        pass

    def relieved(self, node: str) -> None:
        self.events.append(("relieved", node))

    def room(self, node: str) -> None:
        self.events.append(("room", node))

    # For tests

    def items(self, lane: int) -> list[bytes]:
        """The payloads delivered to this process on a lane."""
        return [event[4] for event in self.events if event[0] == "item" and event[2] == lane]  # type: ignore[misc]

    def all(self, kind: str) -> list[tuple[object, ...]]:
        """The events of one kind, without the kind."""
        return [event[1:] for event in self.events if event[0] == kind]


class LinkHarness:
    """Some nodes on one network."""

    def __init__(self, seed: int = 1, settings: LinkSettings | None = None) -> None:
        self.loop = VirtualLoop()
        self.rng = Random(seed)
        self.settings = settings or LinkSettings()
        self.network = MemoryNetwork(self.loop.call_soon, self.loop.call_later)
        self.spoken: dict[str, tuple[int, int]] = {}
        self._made = 0

    def count(self) -> int:
        self._made += 1
        return self._made

    def versions(self, name: str) -> tuple[int, int]:
        """The newest and the oldest version of the protocol of this node."""
        return self.spoken.get(name, (NEWEST, OLDEST))

    def node(self, name: str, boot: int = 1, disk: Disk | None = None, commit_s: float | None = None) -> Node:
        """Start a process that listens; it dials no node yet."""
        return Node(self, name, boot, disk or Disk(f"disk of {name}"), commit_s)

    def pair(self, commit_s: float | None = None) -> tuple[Node, Node]:
        """Returns a and b with streams both ways."""
        a, b = self.node("a", commit_s=commit_s), self.node("b", commit_s=commit_s)
        join(a, b)
        self.loop.run_for(0.1)
        return a, b


def join(*nodes: Node) -> None:
    """Let each node dial all others."""
    peers = {node.name: f"{node.name}:1883" for node in nodes}
    for node in nodes:
        node.links.set_peers(peers)

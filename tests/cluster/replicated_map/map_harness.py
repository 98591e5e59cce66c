"""Nodes with a metadata map each, their disks and lanes on virtual time, and a model of the writes that each node has
seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random

from strogoff.cluster.identity import Incarnation
from strogoff.cluster.replicated_map import dvv
from strogoff.cluster.replicated_map.actors import COUNTER, dot_of
from strogoff.cluster.replicated_map.map import ReplicatedMap
from strogoff.cluster.replicated_map.ports import MapPorts
from strogoff.sim.engine.disk import SimDisk
from strogoff.sim.engine.loop import VirtualLoop
from strogoff.storage.store import Store

Dot = tuple[str, int, int]
Plant = Callable[["MapHarness", ReplicatedMap], None]


class Node:
    """One process of a node: a map, and the disk under it."""

    def __init__(self, world: MapHarness, name: str, boot: int, disk: SimDisk) -> None:
        self.world, self.name, self.boot, self.disk = world, name, boot, disk
        self.alive = True
        self.view = self.entered = 0
        self.routes: dict[bytes, bytes] = {}
        self.present: dict[str, int] = {}
        self.heard: list[tuple[bytes, bytes | None]] = []
        self.store = Store(disk, self.soon, lambda delay, function: world.loop.call_later(delay, function))
        ports = MapPorts(
            self.store,
            lambda peer, data: world.send(self, peer, data),
            lambda peer, data: world.datagram(self, peer, data),
            self.soon,
            lambda: world.loop.now_s * 1000,
            lambda: world.loop.now_s * 1000,
            world.rng,
            lambda: self.view,
        )
        self.map = ReplicatedMap(name, boot, ports)
        self.map.on_change = lambda key, value: self.heard.append((key, value))
        self.map.reports.compared = partial(world.compare, self.name)
        self.map.load()

    @property
    def incarnation(self) -> Incarnation:
        return Incarnation(self.name, self.boot, self.world.entered_in_view.get((self.name, self.boot), 0))

    def soon(self, function: Callable[[], None]) -> None:
        self.world.loop.call_soon(lambda: function() if self.alive else None)

    def purge(self) -> None:
        """Forget the routes of nodes that are in the view with a later boot."""
        self.map.purge(lambda name, boot: boot < self.present.get(name, 0), b"f")

    def tick(self) -> None:
        if self.alive:
            self.purge()
            self.map.tick(self.world.loop.now_s * 1000)
            self.world.loop.call_later(0.25, self.tick)


class MapHarness:
    """The whole system. `history[dot]` is (key, value, the dots of this key that the writer had seen). `promised[name]`
    has the durable dots that this node must have, because a barrier was passed.
    """

    def __init__(
        self,
        seed: int,
        names: str = "ABC",
        plant: Plant | None = None,
        durability: str = "os",
        latency_s: float = 0.005,
    ) -> None:
        self.rng = Random(seed)
        self.loop = VirtualLoop()
        self.plant = plant
        self.entered_in_view: dict[tuple[str, int], int] = {}
        self.view_id = 0
        self.view: tuple[str, ...] = ()
        self.lanes: dict[tuple[str, int, str], deque[bytes]] = {}
        self.cut: set[str] = set()
        self.loss = 0.3
        self.history: dict[Dot, tuple[bytes, bytes | None, set[Dot]]] = {}
        self.alive: set[Dot] = set()
        self.promised: dict[str, list[Dot]] = {}
        self.messages = 0
        self.bytes = 0
        self.errors: list[str] = []
        self.compared: dict[tuple[str, int], tuple[str, str]] = {}
        self.pairs = 0
        """How many exchanges have shown that both sides had seen the same."""
        self.nodes: dict[str, Node] = {}
        self.names = tuple(names)
        self.durability, self.latency_s = durability, latency_s
        for name in names:
            self.start(name, 1, self.new_disk())
        self.set_view(tuple(names))

    def compare(self, name: str, peer: str, exchange: int, behind: int | None, context: str, digest: str) -> None:
        """One side of an exchange says what it has: what is in force must follow from what it has seen."""
        if behind:
            self.errors.append(f"{name} lacks {behind} writes that {peer} had")
        asker = peer if behind is None else name
        other = self.compared.setdefault((asker, exchange), (context, digest))
        self.pairs += behind is not None and context == other[0] != ""
        if context and context == other[0] and digest != other[1]:
            self.errors.append(f"{name} and {peer} differ, and have seen the same")

    def new_disk(self) -> SimDisk:
        """An empty one."""
        return SimDisk(
            self.rng,
            self.loop.call_later,
            lambda: self.loop.now_s,
            self.durability,  # type: ignore[arg-type]
            (0.0002, self.latency_s),
        )

    def start(self, name: str, boot: int, disk: SimDisk) -> Node:
        node = self.nodes[name] = Node(self, name, boot, disk)
        if self.plant is not None:
            self.plant(self, node.map)
        node.map.set_members(self.names)
        node.tick()
        return node

    # The network

    def reachable(self, a: str, b: str) -> bool:
        return a == b or not (a in self.cut or b in self.cut)

    def send(self, source: Node, peer: str, data: bytes) -> None:
        self.messages += 1
        self.bytes += len(data)
        lane = (source.name, source.boot, peer)
        self.lanes.setdefault(lane, deque()).append(data)
        self.loop.call_later(self.rng.uniform(0.0001, 0.02), partial(self._deliver, lane))

    def _deliver(self, lane: tuple[str, int, str]) -> None:
        name, boot, peer = lane
        source, target = self.nodes[name], self.nodes[peer]
        if source.boot != boot or not source.alive or not target.alive or not self.reachable(name, peer):
            return
        waiting = self.lanes[lane]
        if waiting:
            target.map.receive(name, waiting.popleft())

    def datagram(self, source: Node, peer: str, data: bytes) -> None:
        if self.rng.random() >= self.loss:
            self.loop.call_later(self.rng.uniform(0.0001, 0.5), partial(self._arrive, source.name, peer, data))

    def _arrive(self, name: str, peer: str, data: bytes) -> None:
        if self.nodes[peer].alive and self.reachable(name, peer):
            self.nodes[peer].map.receive(name, data)

    # Views

    def set_view(self, names: tuple[str, ...]) -> None:
        """These nodes apply a new view one after the other; a node that enters has an exchange with all others."""
        before, self.view = self.view, names
        self.view_id += 1
        for name in names:
            node = self.nodes[name]
            if name not in before or (name, node.boot) not in self.entered_in_view:
                self.entered_in_view[name, node.boot] = self.view_id
        incarnations = [self.nodes[name].incarnation for name in names]
        for name in names:
            self.loop.call_later(self.rng.uniform(0, 0.05), partial(self._apply, name, self.view_id, incarnations))

    def _apply(self, name: str, view: int, incarnations: list[Incarnation]) -> None:
        node = self.nodes[name]
        mine = [each for each in incarnations if each.node == name]
        if not node.alive or view <= node.view or mine[0].boot != node.boot:
            return
        node.view = view
        node.map.set_peers(each for each in incarnations if each.node != name)
        node.present = {each.node: each.boot for each in incarnations}
        node.purge()
        entered, node.entered = node.entered != mine[0].entered_in_view, mine[0].entered_in_view
        if entered:
            for key, value in list(node.routes.items()):
                self.put(name, key, value.partition(b":")[2])  # with the view in which it has entered
        for peer in incarnations:
            if entered and peer.node != name:
                node.map.exchange(peer.node, view, lambda well: node.purge())

    # Faults

    def isolate(self, name: str) -> None:
        """A node is cut off: the others go on without it, it keeps its view."""
        self.cut.add(name)
        for lane, waiting in self.lanes.items():
            if name in (lane[0], lane[2]) and self.rng.random() < 0.5:
                waiting.clear()
        self.set_view(tuple(other for other in self.view if other != name))

    def heal(self) -> None:
        """All nodes are back; the absent ones enter again."""
        self.cut.clear()
        self.deliver_all()
        self.set_view(tuple(sorted(self.nodes)))

    def deliver_all(self) -> None:
        """What waits in the lanes arrives soon."""
        for lane, waiting in self.lanes.items():
            for _ in waiting:
                self.loop.call_later(0.02, partial(self._deliver, lane))

    def restart(self, name: str, power: bool, lost: bool = False) -> None:
        """Another process of a node, whose disk may be `lost`: then it begins with an empty one."""
        node = self.nodes[name]
        node.alive = False
        node.disk.crash(power)
        for lane, waiting in self.lanes.items():
            if lane[2] == name:
                waiting.clear()
        if lost or (power and self.durability == "os"):
            self.promised.pop(name, None)
        if lost:
            self.start(name, node.boot + 1000, self.new_disk())
        else:
            node = self.start(name, node.boot + 1, node.disk.reopen())
            for dot in self.promised.get(name, []):
                if not covers(node, self.history[dot][0], dot):
                    self.errors.append(f"barrier {dot} passed, {name} lacks {self.history[dot][0]!r} after a restart")
        if name in self.view:
            self.set_view(self.view)

    # Writing, with the model beside it

    def put(self, name: str, key: bytes, value: bytes | None) -> int:
        node = self.nodes[name]
        if key.startswith(b"f"):
            node.routes.pop(key, None)
            if value is not None:
                value = node.routes[key] = b"%d:%s" % (node.entered, value)
        past = self.seen_of(node, key)
        counter = node.map.delete(key) if value is None else node.map.put(key, value)
        self.history[name, node.boot, counter] = (key, value, past)
        return counter

    def look(self) -> None:
        """Note the writes that any node has seen: a power loss may remove a write from all, and a fold hides that."""
        for dot, (key, _, _) in self.history.items():
            clocks = [(node.map._half(key).clock, node.map._actors.number(*dot[:2])) for node in self.nodes.values()]
            if not any(clock.is_folded(actor) for clock, actor in clocks):
                if any(clock.covers(dot_of(actor, dot[2])) for clock, actor in clocks):
                    self.alive.add(dot)
                else:
                    self.alive.discard(dot)

    def seen_of(self, node: Node, key: bytes) -> set[Dot]:
        """The dots of a key among its siblings on a node and of deletions, with all that they had seen."""
        seen = set(siblings(node.map, key))
        seen |= {
            dot for dot, (k, value, _) in self.history.items() if k == key and value is None and covers(node, key, dot)
        }
        for dot in list(seen):
            seen |= self.history[dot][2]
        return seen

    def barrier(self, name: str, counter: int) -> None:
        node = self.nodes[name]
        dot = (name, node.boot, counter)
        key = self.history[dot][0]

        def passed(well: bool) -> None:
            for peer, boot in node.map._peers.items():
                other = self.nodes[peer]
                if other.alive and other.boot == boot and not self.knows(other, key, dot):
                    self.errors.append(f"barrier {dot} passed, {peer} lacks {key!r}")
                if node.map._namespaces[key[:1]].durable:
                    self.promised.setdefault(peer, []).append(dot)

        node.map.barrier(counter, passed)

    def knows(self, node: Node, key: bytes, dot: Dot) -> bool:
        """Whether a node has a write or something that replaced it (a deletion may have been collected)."""
        here = siblings(node.map, key)
        if any(dot == each or dot in self.history[each][2] for each in here):
            return True
        newer = [
            other for other, (_, value, past) in self.history.items() if value is None and (other == dot or dot in past)
        ]
        return not any(value is not None for value in here.values()) and bool(newer)


def covers(node: Node, key: bytes, dot: Dot) -> bool:
    """Whether a node's clock has seen a dot."""
    map_ = node.map
    return map_._half(key).clock.covers(dot_of(map_._actors.number(dot[0], dot[1]), dot[2]))


def siblings(map_: ReplicatedMap, key: bytes) -> dict[Dot, bytes | None]:
    """The siblings of a key under the names of their dots."""
    found = map_._half(key).siblings(key)
    return {(*map_._actors.writer(dot), dot & COUNTER): value for dot, value in dvv.pairs(found)}


def state(map_: ReplicatedMap) -> list[object]:
    """Returns all of a map, comparable between nodes: siblings and clocks of both halves."""
    out: list[object] = []
    for replica in map_._halves:
        out.append({key: siblings(map_, key) for key, _ in replica.walk()})
        names = map_._actors.names
        out.append({names[actor]: tuple(seen) for actor, seen in sorted(replica.clock.seen.items())})
        out.append(dict(replica.clock.folded))
    return out

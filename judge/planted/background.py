"""A right log of a cluster under load: at least three nodes, QoS 0 to 2, groups, retained messages, wills, restarts.

Publishers send one message after the other. Between them sessions come and go, a slot moves, nodes are stopped and
killed, and one node is cut off while policy `on` lets it go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ...cluster.identity import slot_of
from ...mqtt.topics import matches, parse_shared
from ..findings import Subject
from ..rows import MessageId
from .clients import Acts, Client
from .expected import Expected
from .scene import Actor, Node, Scene

PUBLISHERS: Final = 2
"""For each node."""
SUBSCRIBERS: Final = 3
"""The same: subscribers with a topic of their own; each third has a clean session."""
LEAST_NODES: Final = 3
PAUSES_MS: Final = (1, 6)
"""From which range a publisher takes the pause between two messages, without its end."""
JOBS: Final = "$share/workers/jobs/#"


@dataclass
class Waiting:
    """A message for a session: not sent yet, or with a packet id sent and not answered."""

    mid: MessageId
    qos: int
    packet_id: int = 0


@dataclass
class Subscriber(Client):
    """A client that gets messages."""

    online: bool = False
    backlog: list[Waiting] = field(default_factory=list)
    inflight: list[Waiting] = field(default_factory=list)


@dataclass(frozen=True)
class Size:
    """How large a log is: PUBLISH packets in all, nodes, and the time that it covers as a multiple (`pace`) of the
    shortest one. `one_topic`: the share of messages on one topic. `absent`: clients that go and leave a session."""

    messages: int
    nodes: int = LEAST_NODES
    pace: float = 1
    one_topic: float = 0
    absent: int = 0

    @property
    def hours(self) -> float:
        """About how long the log is, in hours."""
        pause_ms = sum(range(*PAUSES_MS)) / len(range(*PAUSES_MS)) * self.pace
        return self.messages * pause_ms / (PUBLISHERS * self.nodes) / 3_600_000


class Background:
    """The load. At given numbers of messages other actors begin."""

    def __init__(self, scene: Scene, size: Size) -> None:
        assert size.nodes >= LEAST_NODES
        assert size.pace >= 1
        self.scene = scene
        self.acts = Acts(scene)
        self.size = size
        self.published = 0
        self.nodes = [Node(f"n{number}@192.0.2.{number}") for number in range(1, size.nodes + 1)]
        self.own_topics = SUBSCRIBERS * size.nodes
        self.subscribers: list[Subscriber] = []
        self.expected: list[Expected] = []
        self.busy: set[str] = set()
        """Nodes that nothing is sent to or from for a moment."""
        self.retained: dict[str, MessageId] = {}
        self._cut: Node | None = None
        self._late: list[tuple[MessageId, Node, Subscriber, int]] = []
        """Messages that another side of the split gets after the heal: with origin, session and QoS."""
        self._later: list[tuple[int, Actor]] = []
        self._alone = (0, 0)
        """The stamp at which the split began, and the number of acknowledgements without a lease."""

    def at(self, share: float, actor: Actor) -> None:
        """Let an actor begin when this share of all messages is published."""
        self._later.append((int(share * self.size.messages), actor))
        self._later.sort(key=lambda each: each[0])

    def run(self) -> Actor:
        """Start the cluster and all clients."""
        for node in self.nodes:
            self.scene.boot(node)
        for node in self.nodes:
            for other in self.nodes:
                if other is not node:
                    self.scene.say(node, "mem.up", target=other.name, view=1)
        for number in range(self.own_topics):
            expiry = 0 if number % 3 == 2 else 3600
            client = Subscriber(f"rx{number}", self.nodes[number // SUBSCRIBERS], expiry)
            self._arrive(client, {f"own/{number}/#": number % 3 if number < 3 else 1 + number % 2})
        for number, node in enumerate(self.nodes):
            self._arrive(Subscriber(f"worker{number}", node, 3600), {JOBS: 1})
        self._arrive(Subscriber("mourner", self.nodes[0], 3600), {"wills/#": 1})
        self._arrive(Subscriber("watcher", self.nodes[1], 3600), {"state/+": 1})
        for number in range(self.size.absent):
            absent = Client(f"absent{number}", self.nodes[number % len(self.nodes)], 3600)
            self.acts.connect(absent)
            self.acts.subscribe(absent, f"absent/{number}/#")
            self.acts.close(absent)
            yield 0
        for number in range(PUBLISHERS * len(self.nodes)):
            node = self.nodes[number % len(self.nodes)]
            self.scene.start(self._publisher(Client(f"tx{number}", node)))
        for share, actor in (
            (0.15, self._away(self.subscribers[0], rude=False)),
            (0.2, self._mortal("mortal", dies=True)),
            (0.25, self._away(self.subscribers[3], rude=True)),
            (0.3, self._visitor()),
            (0.35, self._restart(self.nodes[1], killed=False)),
            (0.45, self._move(self.subscribers[0], self.nodes[2])),
            (0.55, self._restart(self.nodes[0], killed=True)),
            (0.65, self._mortal("polite", dies=False)),
            (0.7, self._split(self.nodes[2])),
            (0.9, self._visitor()),
        ):
            self.at(share, actor)
        yield 0

    def stop(self) -> Actor:
        """Stop all nodes, after everything else."""
        for node in self.nodes:
            self.scene.stop(node)
        yield 0

    # -- publishing

    def _publisher(self, client: Client) -> Actor:
        self.acts.connect(client)
        conn_boot = client.node.boot
        while self.published < self.size.messages:
            if client.node.boot != conn_boot:
                self.acts.connect(client)
                conn_boot = client.node.boot
            if client.node.name not in self.busy:
                self._count()
                self.scene.start(self._publish(client, *self._topic()))
            yield int(self.scene.random.randrange(*PAUSES_MS) * self.size.pace)
        while not client.node.up or client.node.name in self.busy:
            yield 10

    def _count(self) -> None:
        self.published += 1
        while self._later and (self._later[0][0] <= self.published or self.published == self.size.messages):
            self.scene.start(self._later.pop(0)[1])

    def _topic(self) -> tuple[str, int, bool]:
        random = self.scene.random
        if self.size.one_topic and random.random() < self.size.one_topic:
            return "own/1/x", 1, False
        kind = random.randrange(10)
        if kind == 0:
            return f"jobs/{random.randrange(3)}", 1, False
        if kind == 1:
            return f"state/{random.randrange(4)}", 1, True
        return f"own/{random.randrange(self.own_topics)}/x", random.randrange(3), False

    def _targets(self, topic: str) -> list[tuple[Subscriber, int]] | None:
        """Returns the sessions that get a message, with their QoS: one member of a group. None if that must wait."""
        found: list[tuple[Subscriber, int]] = []
        members: list[tuple[Subscriber, int]] = []
        for client in self.subscribers:
            for each, qos in client.filters.items():
                group, pattern = parse_shared(each)
                if matches(pattern, topic):
                    (found if group is None else members).append((client, qos))
        reachable = [each for each in members if each[0].node.name not in self.busy and each[0].node is not self._cut]
        if members and not reachable:
            return None
        return found + ([self.scene.random.choice(reachable)] if reachable else [])

    def _publish(self, client: Client, topic: str, qos: int, retain: bool) -> Actor:
        origin, acts = client.node, self.acts
        targets = self._targets(topic)
        if targets is None or any(each.node.name in self.busy for each, _ in targets):
            return
        if self._cut is not None and (retain or topic.startswith("jobs/")):
            return  # their rules in a split are not shown here
        mid = acts.accept(client, topic, qos, retain)
        if retain:
            self._retain(mid, topic)
        there: dict[str, list[tuple[Subscriber, int]]] = {}
        for each, granted in targets:
            there.setdefault(each.node.name, []).append((each, min(qos, granted)))
        sent = self._arrives(mid, origin, topic, there.pop(origin.name, []))
        nodes = [node for node in self.nodes if node.name in there]
        for node in [node for node in nodes if (node is self._cut) != (origin is self._cut)]:
            nodes.remove(node)
            self._late += [
                (mid, origin, each, granted) for each, granted in there[node.name] if each.durable and granted
            ]
        for node in nodes:
            self.scene.say(origin, "fwd.send", mid=mid, target=node.name)
        yield 1
        for node in nodes:
            self.scene.say(node, "fwd.recv", mid=mid, source=origin.name)
            sent += self._arrives(mid, node, topic, there[node.name])
        yield 1
        for node in nodes:
            acts.forwarded(mid, origin, node)
        if qos:
            acts.ack(mid, client, qos, right="policy" if origin is self._cut else "lease")
            self._alone = self._alone[0], self._alone[1] + (origin is self._cut)
        yield 1
        self._answer(sent)

    def _retain(self, mid: MessageId, topic: str) -> None:
        self.retained[topic] = mid
        for node in self.nodes:
            if node.up:
                self.acts.retain(mid, node, topic)

    def _arrives(
        self, mid: MessageId, node: Node, topic: str, targets: list[tuple[Subscriber, int]]
    ) -> list[tuple[Subscriber, int, Waiting]]:
        self.acts.route(mid, node, *(each for each, _ in targets))
        return [sent for each, qos in targets for sent in self._deliver(mid, each, topic, qos)]

    def _deliver(
        self, mid: MessageId, client: Subscriber, topic: str, qos: int
    ) -> list[tuple[Subscriber, int, Waiting]]:
        if not (client.online or (client.durable and qos)):
            return []
        self.acts.enqueue(mid, client, topic, qos)
        waiting = Waiting(mid, qos)
        if not client.online or client.backlog:
            client.backlog.append(waiting)
            return []
        return self._send(client, waiting)

    def _send(self, client: Subscriber, waiting: Waiting, dup: bool = False) -> list[tuple[Subscriber, int, Waiting]]:
        waiting.packet_id = self.acts.send(waiting.mid, client, waiting.qos, waiting.packet_id, dup)
        if not waiting.qos:
            return []
        if not dup:
            client.inflight.append(waiting)
        return [(client, client.conn, waiting)]

    def _answer(self, sent: list[tuple[Subscriber, int, Waiting]]) -> None:
        for client, conn, waiting in sent:
            if client.conn == conn and client.online and waiting in client.inflight:
                self.acts.got(waiting.mid, client, waiting.packet_id, waiting.qos)
                client.inflight.remove(waiting)

    # -- sessions

    def _arrive(self, client: Subscriber, filters: dict[str, int]) -> None:
        self.subscribers.append(client)
        self.acts.connect(client)
        client.online = True
        for each, qos in filters.items():
            self.acts.subscribe(client, each, qos)

    def _return(self, client: Subscriber) -> Actor:
        """A durable session is resumed; a clean one begins anew, with the same subscriptions."""
        filters = dict(client.filters)
        self.acts.connect(client, present=client.durable)
        client.online = True
        if not client.durable:
            client.inflight.clear()
            client.backlog.clear()
            for each, qos in filters.items():
                self.acts.subscribe(client, each, qos)
            return
        self.acts.of_session(client, "q.depth", count=len(client.inflight) + len(client.backlog))
        sent = []
        for waiting in list(client.inflight):
            sent += self._send(client, waiting, dup=True)
        for waiting in client.backlog:
            sent += self._send(client, waiting)
        client.backlog.clear()
        yield 1
        self._answer(sent)

    def _away(self, client: Subscriber, rude: bool) -> Actor:
        """A client goes, at rest or with messages that it has not answered, and comes back."""
        if not rude:
            yield from self._rest(client.node)
        client.online = False
        self.acts.close(client)
        self.busy.discard(client.node.name)
        yield 200
        yield from self._return(client)

    def _rest(self, node: Node) -> Actor:
        """Wait until nothing is under way to or from a node, or any other that is busy."""
        while self.busy or self._cut is not None:
            yield 10
        self.busy.add(node.name)
        yield 20

    def _mortal(self, name: str, dies: bool) -> Actor:
        """A client with a will dies, or says goodbye."""
        client = Client(name, self.nodes[0])
        yield from self._rest(client.node)
        self.busy.discard(client.node.name)
        self.acts.connect(client, will=f"wills/{name}")
        yield 2
        acts = self.acts
        if dies:
            acts.say(client.node, "conn.close", client=name, reason="peer_closed", conn=client.conn)
            mid = acts.fire(client, f"wills/{name}")
            (mourner,) = [each for each in self.subscribers if each.name == "mourner"]
            acts.route(mid, client.node, mourner)
            self._answer(self._deliver(mid, mourner, f"wills/{name}", 1))
        else:
            acts.drop_will(client, "disconnected", topic=f"wills/{name}")
            acts.say(client.node, "conn.close", client=name, reason="disconnected", conn=client.conn)
        acts.of_session(client, "sess.end", reason="disconnected")

    def _visitor(self) -> Actor:
        """A client subscribes to topics with retained messages, gets them, and goes."""
        yield from self._rest(self.nodes[1])
        client = Subscriber(f"visitor{self.published}", self.nodes[1])
        self._arrive(client, {"state/+": 1})
        sent = []
        for topic, mid in sorted(self.retained.items()):
            self.acts.of_session(client, "ret.deliver", topic=topic, mid=mid)
            sent += self._send(client, Waiting(mid, 1))
        yield 1
        self._answer(sent)
        self.subscribers.remove(client)
        self.acts.close(client)
        self.busy.discard(self.nodes[1].name)

    def _move(self, client: Subscriber, target: Node) -> Actor:
        """The slot of a session goes to another node."""
        source = client.node
        slot = slot_of("", client.name)
        there = [each for each in self.subscribers if each.node is source and slot_of("", each.name) == slot]
        yield from self._rest(source)
        if source.name != target.name:
            for each in there:
                each.online = False
                self.acts.say(source, "conn.close", client=each.name, reason="moved", conn=each.conn)
            self.scene.say(source, "slot.move", slot=slot, target=target.name)
            self.scene.say(source, "slot.moved", slot=slot, target=target.name, sessions=len(there), bytes=100)
            yield 5
            self.scene.say(target, "slot.arrive", slot=slot)
            for each in there:
                each.node = target
                yield from self._return(each)
        self.busy.discard(source.name)

    # -- nodes

    def _restart(self, node: Node, killed: bool) -> Actor:
        yield from self._rest(node)
        there = [each for each in self.subscribers if each.node is node]
        others = [each for each in self.nodes if each is not node]
        for each in there:
            each.online = False
            if not killed:
                self.acts.say(node, "conn.close", client=each.name, reason="server_shutting_down", conn=each.conn)
                if not each.durable:
                    self.acts.of_session(each, "sess.end", reason="disconnected")
        if killed:
            node.up = False
        else:
            self.scene.stop(node)
        yield 300
        for other in others:
            self.scene.say(other, "mem.down", target=node.name, view=2)
        yield 300
        self.scene.boot(node)
        for other in others:
            self.scene.say(other, "mem.up", target=node.name, view=3)
        for each in there:
            yield from self._return(each)
        self.busy.discard(node.name)

    def _split(self, node: Node) -> Actor:
        """A node is cut off; policy `on` lets it accept messages, which the others get after the heal."""
        yield from self._rest(node)
        others = [each for each in self.nodes if each is not node]
        self.busy.update(each.name for each in others)
        yield 20
        begin, names = self.scene.now, [each.name for each in others]
        self._alone = self._of_split("split.detect", node, names, "minority", begin), 0
        self.scene.say(node, "lease.lose", view=3)
        for other in others:
            self.scene.say(other, "mem.down", target=node.name, view=4)
            self._of_split("split.detect", other, [node.name], "majority", begin)
        self._cut = node
        self.busy.clear()
        yield 400
        self.busy.update(each.name for each in self.nodes)
        yield 20
        for other in others:
            self.scene.say(other, "mem.up", target=node.name, view=5)
        self.scene.say(node, "lease.get", view=5)
        yield from self._handed_over()
        self._of_split("split.heal", node, names, "minority", begin)
        for other in others:
            self._of_split("split.heal", other, [node.name], "majority", begin)
        if self._alone[1]:
            subject = Subject(node.name, detail=f"since {self._alone[0]}")
            self.expected.append(Expected("A21", "policy", subject, "info"))
        self._cut = None
        self.busy.clear()

    def _of_split(self, kind: str, node: Node, nodes: list[str], state: str, begin: int) -> int:
        now = self.scene.now
        more = {"healed_ms": now, "split_ms": now - begin} if kind == "split.heal" else {}
        if kind == "split.detect":
            self.expected.append(Expected("A20", state, Subject(node.name, detail="incident 3"), "metric"))
        times = {"incident": 3, "begin_ms": begin - 20, "detected_ms": begin, "window_ms": 20, **more}
        return int(self.scene.say(node, kind, nodes=nodes, state=state, **times)["hlc"])

    def _handed_over(self) -> Actor:
        """The messages for the other side arrive there."""
        sent = []
        for mid, origin, client, qos in self._late:
            self.acts.forward(mid, origin, client.node)
            self.acts.route(mid, client.node, client)
            sent += self._deliver(mid, client, "own", qos)
            self.acts.forwarded(mid, origin, client.node)
        self._late.clear()
        yield 1
        self._answer(sent)

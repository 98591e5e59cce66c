"""The stage of a planted case: nodes and clients of its own beside the load, and what must be found."""

from __future__ import annotations

from collections.abc import Iterator

from ...cluster.identity import slot_of
from ..findings import Severity, Subject
from ..rows import MessageId, Row
from .clients import Acts, Client
from .expected import Expected
from .scene import Node, Scene


def subscriber_slot(stage: str) -> int:
    """Returns the slot of the subscriber of the case with this name."""
    return slot_of("", f"{stage}-rx")


class Stage(Acts):
    """Acts for one case. Its names contain `name`, so that cases do not meet each other."""

    def __init__(self, scene: Scene, name: str, case: str) -> None:
        super().__init__(scene)
        self.name = name
        self.case = case
        self.expected: list[Expected] = []
        self.nodes: list[Node] = []

    def node(self) -> Node:
        """Start another node."""
        node = Node(f"{self.name}-{len(self.nodes) + 1}@192.0.2.9")
        self.nodes.append(node)
        self.scene.boot(node)
        return node

    def kill(self, node: Node) -> Iterator[int]:
        """Kill a node; it starts again after a while."""
        yield 300
        self.scene.boot(node)

    def power_loss(self, node: Node) -> Iterator[int]:
        """A node loses power. Its log may have all rows, but nobody knows that."""
        boot, last = node.boot, node.seq
        yield from self.kill(node)
        self.scene.written[-1] = {**self.scene.written[-1], "known_seq": last, "tail_lost": True}
        self.expect("A0", "tail", Subject(node.name, detail=f"boot {boot}, row {last + 1}"), "info")

    def end(self) -> None:
        """Stop what still runs: then the logs of these nodes hide nothing."""
        for node in self.nodes:
            self.scene.stop(node)

    def client(self, node: Node, role: str = "rx", expiry_s: int = 3600, will: str = "") -> Client:
        """A client connects; its session is durable by default."""
        client = Client(f"{self.name}-{role}", node, expiry_s)
        self.connect(client, will=will)
        return client

    def pair(self, filter: str = "", qos: int = 2, expiry_s: int = 3600) -> tuple[Client, Client]:
        """Returns a publisher and a subscriber at a new node. The subscriber has `topic`, or this filter."""
        node = self.node()
        subscriber = self.client(node, expiry_s=expiry_s)
        self.subscribe(subscriber, filter or self.topic, qos)
        return self.client(node, "tx", 0), subscriber

    def far_pair(self, expiry_s: int = 3600) -> tuple[Client, Client]:
        """Returns a publisher and a subscriber at two new nodes. The subscriber has `topic`."""
        publisher = self.client(self.node(), "tx", 0)
        subscriber = self.client(self.node(), expiry_s=expiry_s)
        self.subscribe(subscriber, self.topic)
        return publisher, subscriber

    @property
    def topic(self) -> str:
        """A topic that only this case has."""
        return f"case/{self.name}"

    # -- whole steps of messages

    def published(self, tx: Client, *queues: Client, qos: int = 1, safe: bool = True, topic: str = "") -> MessageId:
        """A message is accepted, enters the queues at the same node, and is acknowledged."""
        topic = topic or self.topic
        mid = self.accept(tx, topic, qos)
        self.route(mid, tx.node, *queues)
        for each in queues:
            self.enqueue(mid, each, topic, qos, safe)
        self.ack(mid, tx, qos)
        return mid

    def delivered(self, tx: Client, rx: Client, qos: int = 1) -> MessageId:
        """A message takes all steps."""
        mid = self.published(tx, rx, qos=qos)
        self.got(mid, rx, self.send(mid, rx, qos), qos)
        return mid

    # -- what must be found

    def expect(
        self, anomaly: str, kind: str, subject: Subject, severity: Severity = "fatal", sure: bool = True
    ) -> None:
        """Note a finding that this case must lead to."""
        self.expected.append(Expected(anomaly, kind, subject, severity, sure, self.case))

    def expect_of(
        self, anomaly: str, kind: str, client: Client, mid: MessageId | None = None, severity: Severity = "fatal"
    ) -> None:
        """The same, for the first session of a client where it is."""
        self.expect(anomaly, kind, self.session(client, mid), severity)

    def session(self, client: Client, mid: MessageId | None = None, number: int = 1) -> Subject:
        """Returns a session of a client, where it is, and perhaps a message for it."""
        return Subject(client.node.name, "", client.name, number, mid)

    def place(self, client: Client, row: Row) -> Subject:
        """Returns a client, and a row as what tells the finding apart."""
        detail = f"{row['node']}, boot {row['boot']}, row {row['seq']}"
        return Subject(client.node.name, "", client.name, detail=detail)

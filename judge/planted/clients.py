"""What clients do, as rows: connect, subscribe, publish, answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..rows import MessageId
from .scene import Node, Scene


@dataclass
class Client:
    """A client, where it is connected, and its session. `expiry_s` 0: the session ends with the connection."""

    name: str
    node: Node
    expiry_s: int = 0
    conn: int = 0
    epoch: int = 0
    packet_id: int = 0
    receive_max: int = 20
    will: str = ""
    """The name of its last will."""
    filters: dict[str, int] = field(default_factory=dict)
    """Filters as subscribed, with their QoS."""
    published: dict[MessageId, int] = field(default_factory=dict)
    """The packet ids of its messages without an acknowledgement."""

    @property
    def durable(self) -> bool:
        """Whether the session outlives a connection."""
        return self.expiry_s > 0

    def next_packet_id(self) -> int:
        """Returns a packet id that it has not used recently."""
        self.packet_id = self.packet_id % 65_535 + 1
        return self.packet_id


class Acts:
    """Writes the rows of what clients do, and of what the broker does for them."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.say = scene.say
        self._epochs = 0
        self._wills = 0

    def connect(self, client: Client, present: bool = False, will: str = "", **more: Any) -> None:
        """It gets its session: the one that is `present`, or a new one."""
        client.node.conns += 1
        client.conn = client.node.conns
        if not present:
            self._epochs += 1
            client.epoch = self._epochs if client.durable else 0
            client.filters = {}
        wills: dict[str, Any] = {}
        if will:
            self.arm(client, will)
            wills = {"will_delay_s": 0, "will": client.will}
        self.say(
            client.node,
            "conn.open",
            client=client.name,
            peer="192.0.2.1:1883",
            version=5,
            conn=client.conn,
            epoch=client.epoch,
            clean=not client.durable,
            present=present,
            expiry_s=client.expiry_s,
            receive_max=client.receive_max,
            keepalive_s=60,
            **wills,
            **more,
        )
        self.of_session(client, "sess.resume" if present else "sess.create")

    def close(self, client: Client, reason: str = "peer_closed") -> None:
        """Its connection ends; a session that does not outlive it, too."""
        self.say(client.node, "conn.close", client=client.name, reason=reason, conn=client.conn)
        if not client.durable:
            self.of_session(client, "sess.end", reason="disconnected")

    def arm(self, client: Client, topic: str) -> None:
        """Its node has a will of it."""
        self._wills += 1
        client.will = f"{client.node.name}/{self._wills}"
        self.of_session(client, "will.arm", topic=topic, will=client.will)

    def fire(self, client: Client, topic: str) -> MessageId:
        """Its will is published."""
        mid = self.scene.mid(client.node)
        self.say(client.node, "will.fire", client=client.name, topic=topic, mid=mid, will=client.will)
        return mid

    def drop_will(self, client: Client, reason: str, **fields: Any) -> None:
        """Its will is not published."""
        self.of_session(client, "will.cancel", reason=reason, will=client.will, **fields)

    def of_session(self, client: Client, kind: str, **fields: Any) -> None:
        """Write a row of its session."""
        self.say(client.node, kind, client=client.name, epoch=client.epoch, **fields)

    def subscribe(self, client: Client, filter: str, qos: int = 1) -> None:
        """It subscribes, and gets its SUBACK."""
        client.filters[filter] = qos
        self.of_session(client, "sub.add", filter=filter, qos=qos)
        self.answer(client, "sub.ack", filter, qos)

    def unsubscribe(self, client: Client, filter: str) -> None:
        """It unsubscribes, and gets its UNSUBACK."""
        client.filters.pop(filter, None)
        self.of_session(client, "sub.del", filter=filter)
        self.answer(client, "unsub.ack", filter, 0)

    def answer(self, client: Client, kind: str, filter: str, code: int) -> None:
        """Write a row of SUBACK or UNSUBACK."""
        self.say(client.node, kind, client=client.name, filters=[filter], codes=[str(code)], conn=client.conn)

    # -- a message, step by step

    def accept(self, client: Client, topic: str, qos: int = 1, retain: bool = False) -> MessageId:
        """The client's node accepts a PUBLISH. Returns its id."""
        mid = self.scene.mid(client.node)
        packet = {}
        if qos:
            packet["packet_id"] = client.published[mid] = client.next_packet_id()
        of = {"client": client.name, "conn": client.conn, "topic": topic, "qos": qos}
        self.say(client.node, "pub.recv", mid=mid, **of, **packet, retain=retain, bytes=100)
        return mid

    def route(self, mid: MessageId, node: Node, *clients: Client) -> None:
        """A node finds its sessions for a message."""
        self.say(node, "pub.route", mid=mid, targets=[each.name for each in clients])

    def enqueue(self, mid: MessageId, client: Client, topic: str, qos: int = 1, safe: bool = True) -> None:
        """It enters the queue of a session, and is safe there if the session is durable."""
        self.of_session(client, "q.enq", mid=mid, topic=topic, qos=qos)
        if safe:
            self.safe(mid, client, qos)

    def safe(self, mid: MessageId, client: Client, qos: int = 1) -> None:
        """The entry of a durable session is safe."""
        if client.durable and qos:
            client.node.lsn += 1
            self.of_session(client, "q.durable", mid=mid, lsn=client.node.lsn, durability="sync", copied=False)

    def ack(self, mid: MessageId, client: Client, qos: int = 1, code: int = 0, right: str = "lease") -> None:
        """The publisher gets its PUBACK or PUBREC."""
        packet_id = client.published.pop(mid)
        of = {"client": client.name, "conn": client.conn, "packet_id": packet_id}
        self.say(client.node, "pub.ack", mid=mid, **of, qos=qos, code=code, right=right)
        if qos == 2:
            self.say(client.node, "pub.rel", mid=mid, **of)
            self.say(client.node, "pub.comp", mid=mid, **of)

    def send(self, mid: MessageId, client: Client, qos: int = 1, packet_id: int = 0, dup: bool = False) -> int:
        """A subscriber is sent a message. Returns the packet id."""
        packet_id = (packet_id or client.next_packet_id()) if qos else 0
        packet = {"packet_id": packet_id} if qos else {}
        self.say(client.node, "dlv.send", mid=mid, client=client.name, conn=client.conn, qos=qos, dup=dup, **packet)
        return packet_id

    def got(self, mid: MessageId, client: Client, packet_id: int, qos: int = 1) -> None:
        """The subscriber answers."""
        of = {"client": client.name, "conn": client.conn, "packet_id": packet_id}
        self.say(client.node, "dlv.ack", mid=mid, **of, code=0)
        if qos == 2:
            self.say(client.node, "dlv.rel", **of)
            self.say(client.node, "dlv.comp", **of)

    def retain(self, mid: MessageId, node: Node, topic: str) -> None:
        """A node has another retained message."""
        self.say(node, "ret.set", topic=topic, mid=mid, bytes=100, digest=f"{mid[2]:016x}")

    def forward(self, mid: MessageId, origin: Node, target: Node) -> None:
        """A message goes over a link. The answer of the other node is `forwarded`."""
        self.say(origin, "fwd.send", mid=mid, target=target.name)
        self.say(target, "fwd.recv", mid=mid, source=origin.name)

    def forwarded(self, mid: MessageId, origin: Node, target: Node) -> None:
        """The other node has it."""
        self.say(origin, "fwd.ack", mid=mid, target=target.name)

"""Builds event logs by hand: the rows of a run, made by the broker's own `Events` and checked against the schema."""

from __future__ import annotations

from itertools import count
from typing import Any

from strogoff.analytics.schema import MESSAGE, TYPES, validate
from strogoff.broker.reporting.events import Events, Row

NODE = "n@127.0.0.1"
USUAL = {
    "bytes": 1,
    "clean": False,
    "code": 0,
    "copied": False,
    "digest": "00",
    "durability": "sync",
    "epoch": 1,
    "expiry_s": 0,
    "incident": 1,
    "keepalive_s": 60,
    "lsn": 1,
    "mid": ("", 0, 0),
    "packet_id": 1,
    "peer": "127.0.0.1:1",
    "present": False,
    "qos": 1,
    "receive_max": 20,
    "right": "own",
    "topic": "t/1",
    "version": 5,
}
"""Values of fields that most tests do not care for."""


class Log:
    """Rows of one node, a millisecond apart. `boot` begins the next boot, as after a kill."""

    def __init__(self, node: str = NODE) -> None:
        self.node = node
        self.rows: list[Row] = []
        self._now = count(1000)
        self._boot = 0
        self._counter = 0
        self._numbers = count(1)
        self._qos: dict[Any, int] = {}
        self._conns: dict[str, int] = {}
        self._wills: dict[str, str] = {}
        self.boot()

    def boot(self) -> None:
        """Start the node."""
        self._boot += 1
        self._events = Events(self.node, self._boot, "run", lambda: next(self._now), lambda: 0, MESSAGE)
        self._events.add(self.rows.append)
        self.say("node.start", retained=0)

    def say(self, kind: str, **fields: Any) -> None:
        """Add a row as the broker writes it. What the row must have and no test cares for is added. A will without a
        name is the client's last one at this node."""
        if kind == "will.arm":
            self._wills[fields["client"]] = f"{self.node}/{next(self._numbers)}"
        if kind.startswith("will.") and fields["client"] in self._wills:
            fields.setdefault("will", self.will(fields["client"]))
        usual = {**USUAL, "conn": self.conn(fields.get("client", ""))}
        missing = {name: usual[name] for name in TYPES[kind].required if name in usual and name not in fields}
        self._events.emit(kind, **fields, **missing)
        assert validate(self.rows[-1]) == []

    def will(self, client: str) -> str:
        """The name of the client's last will at this node."""
        return self._wills[client]

    def pass_s(self, s: int, *others: Log) -> None:
        """Let time pass, also at these nodes, which have the same clock."""
        self._now = count(next(self._now) + s * 1000)
        for each in (self, *others):
            each._now = self._now
            each.say("node.stats", connects=1, publishes=0, deliveries=0, drops={})

    def connect(
        self, client: str, present: bool = False, will: bool = False, expiry_s: int = 0, delay_s: int = 0
    ) -> None:
        """A connection gets its session, which outlives it by `expiry_s`. `delay_s`: that of the will."""
        self._conns[client] = next(self._numbers)
        if will:
            self.say("will.arm", client=client, topic="will")
        wills = {"will_delay_s": delay_s, "will": self.will(client)} if will else {}
        self.say("conn.open", client=client, present=present, expiry_s=expiry_s, **wills)
        self.say("sess.resume" if present else "sess.create", client=client)

    def subscriber(self, client: str = "rx", filter: str = "t/#", qos: int = 2, expiry_s: int = 0) -> None:
        """A client with a subscription."""
        self.connect(client, expiry_s=expiry_s)
        self.subscribe(client, filter, qos)

    def subscribe(self, client: str = "rx", filter: str = "t/#", qos: int = 2) -> None:
        """A client subscribes, or subscribes again."""
        self.say("sub.add", client=client, filter=filter, qos=qos)
        self.say("sub.ack", client=client, filters=[filter], codes=[str(qos)])

    def accept(self, client: str = "tx", topic: str = "t/1", qos: int = 1, **more: Any) -> tuple[str, int, int]:
        """Accept a PUBLISH; returns its mid."""
        self._counter += 1
        mid = (self.node, self._boot, self._counter)
        self._qos[mid] = qos
        self.say("pub.recv", mid=mid, client=client, topic=topic, qos=qos, **more)
        return mid

    def route(self, mid: Any, *clients: str, durable: bool = True) -> None:
        """Route it to these clients, and enter it in their queues."""
        self.say("pub.route", mid=mid, targets=list(clients))
        for client in clients:
            self.say("q.enq", mid=mid, client=client)
            if durable:
                self.say("q.durable", mid=mid, client=client)

    def conn(self, client: str) -> int:
        """The number of the client's last connection; 1 if it has none."""
        return self._conns.get(client, 1)

    def ack(self, mid: Any, client: str = "tx", code: int = 0) -> None:
        """Answer its publisher."""
        self.say("pub.ack", mid=mid, client=client, code=code)

    def send(self, mid: Any, client: str = "rx", packet_id: int = 1, dup: bool = False, qos: int | None = None) -> None:
        """Send it to a subscriber, with this QoS; None: that of its PUBLISH."""
        qos = self._qos.get(tuple(mid), 1) if qos is None else qos
        self.say("dlv.send", mid=mid, client=client, packet_id=packet_id, qos=qos, dup=dup)

    def got(self, mid: Any, client: str = "rx", packet_id: int = 1) -> None:
        """The subscriber answers."""
        self.say("dlv.ack", mid=mid, client=client, packet_id=packet_id)

    def whole(self, client: str = "rx", **publish: Any) -> tuple[str, int, int]:
        """Add a message from PUBLISH to the subscriber's answer; returns its mid."""
        mid = self.accept(**publish)
        self.route(mid, client)
        self.ack(mid)
        self.send(mid, client, mid[2])
        self.got(mid, client, mid[2])
        return mid


def two_nodes() -> tuple[Log, Log]:
    """The rows of nodes `a` and `b`, which have one clock."""
    a, b = Log("a"), Log("b")
    b._now = a._now
    return a, b

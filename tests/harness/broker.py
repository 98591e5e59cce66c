"""A node on virtual time for transcripts: clients speak packets, the disk does what the test says."""

from __future__ import annotations

from math import inf
from random import Random
from typing import Any

from strogoff.broker.node import Node
from strogoff.broker.options import Options
from strogoff.mqtt import packets
from strogoff.sim.engine.disk import SimDisk
from strogoff.sim.engine.host import AllowAll, Host
from strogoff.sim.engine.loop import VirtualLoop
from strogoff.sim.engine.peer import Peer

Properties = dict[str, Any]


class PacketClient(Peer):
    """A client that decides nothing: it sends what the test says and shows what it gets."""

    def __init__(self, broker: BrokerHarness, version: int, **listener: Any) -> None:
        super().__init__(broker.host, version, **listener)
        self.broker = broker

    def ask(self, *sent: Any) -> list[Any]:
        """Send, let everything that is due happen, and return what came."""
        self.send(*sent)
        self.broker.settle()
        return self.take()

    def subscribe(self, *wanted: Any, packet_id: int = 1, **properties: Any) -> list[Any]:
        """SUBSCRIBE to (filter, QoS) pairs or full options; returns what came."""
        options = [each if isinstance(each, packets.SubscribeOptions) else option(*each) for each in wanted]
        return self.ask(packets.Subscribe(packet_id, options, properties or None))

    def unsubscribe(self, *filters: str, packet_id: int = 1) -> list[Any]:
        """UNSUBSCRIBE; returns what came."""
        return self.ask(packets.Unsubscribe(packet_id, list(filters)))

    def publish(
        self,
        topic: str,
        payload: bytes = b"m",
        qos: int = 0,
        packet_id: int = 1,
        retain: bool = False,
        dup: bool = False,
        **properties: Any,
    ) -> list[Any]:
        """PUBLISH; returns what came."""
        return self.ask(publish(topic, payload, qos, packet_id, retain, dup, **properties))

    def messages(self) -> list[packets.Publish]:
        """The PUBLISH packets that came since the last look; everything else that came is forgotten."""
        self.broker.settle()
        return [packet for packet in self.take() if isinstance(packet, packets.Publish)]

    def payloads(self) -> list[bytes]:
        """The payloads of `messages`."""
        return [packet.payload for packet in self.messages()]

    def drain(self, limit: int = 100_000) -> list[packets.Publish]:
        """Take messages and answer them for good until no more come."""
        found: list[packets.Publish] = []
        while True:
            self.broker.settle()
            came = self.take()
            if not came:
                return found
            for packet in came:
                if isinstance(packet, packets.Publish):
                    found.append(packet)
                self.answer(packet)
            assert len(found) <= limit

    def answer(self, packet: Any) -> None:
        """What a good subscriber says to a packet."""
        if isinstance(packet, packets.Pubrel):
            self.send(packets.Pubcomp(packet.packet_id))
        elif isinstance(packet, packets.Publish) and packet.qos:
            kind = packets.Puback if packet.qos == 1 else packets.Pubrec
            self.send(kind(packet.packet_id))

    def leave(self) -> None:
        """DISCONNECT: the session goes on without a connection, or ends."""
        self.send(packets.Disconnect())
        self.broker.settle()

    def vanish(self) -> None:
        """The connection is lost."""
        self.break_off()
        self.broker.settle()


class BrokerHarness:
    """One node and its disk; `options` are fields of `Options`, `level` is that of the events."""

    def __init__(self, plugin: object | None = None, level: int = 1, seed: int = 0, **options: Any) -> None:
        self.loop = VirtualLoop()
        self.disk = SimDisk(Random(seed), self.loop.call_later, lambda: self.loop.now_s, "sync", (0.0, 0.0))
        settings = Options(**{"allow_anonymous": True, "systree_enabled": False, "max_message_size": 0, **options})
        plugins = {"plugin": AllowAll() if plugin is None else plugin}
        self.host = Host(self.loop, lambda _: self.disk, settings, plugins=plugins)
        self.host.event_level = level
        self.host.start()
        self.settle()

    @property
    def node(self) -> Node:
        """The running node."""
        assert self.host.node is not None
        return self.host.node

    def settle(self) -> None:
        """Everything that is due happens; time stands still."""
        self.loop.settle()

    def pass_s(self, seconds: float) -> None:
        """Time passes."""
        self.loop.run_for(seconds)

    def client(
        self, client_id: str, version: int = 4, clean: bool = True, expiry_s: int | None = None, **fields: Any
    ) -> PacketClient:
        """A connected client. `expiry_s` and other lower-case properties of CONNECT are v5's; `will` is a `Will`."""
        client, connack = self.connect(client_id, version, clean, expiry_s, **fields)
        assert connack.reason == 0, connack
        return client

    def connect(
        self, client_id: str, version: int = 4, clean: bool = True, expiry_s: int | None = None, **fields: Any
    ) -> tuple[PacketClient, packets.Connack]:
        """A client and the CONNACK that it got; what came behind CONNACK is still to be taken."""
        client = PacketClient(self, version)
        client.send(connect(client_id, version, clean, expiry_s, **fields))
        self.settle()
        connack, *rest = client.take()
        assert isinstance(connack, packets.Connack)
        client.received = rest
        return client, connack

    def persistent(self, client_id: str, version: int = 4, **fields: Any) -> PacketClient:
        """A client whose session goes on without a connection, the old one if there is one."""
        return self.client(client_id, version, False, 1000 if version == 5 else None, **fields)

    def hold_disk(self) -> None:
        """No write ends until `free_disk`."""
        self.disk.stall_until = inf

    def free_disk(self) -> None:
        """Writes go on."""
        self.disk.stall_until = 0.0
        self.settle()

    def restart(self, power: bool = False) -> None:
        """The process is killed (`power`: with its machine) and started again on what the disk kept."""
        self.disk.crash(power)
        self.host.kill()
        self.settle()
        self.disk = self.disk.reopen()
        self.disk.stall_until = 0.0
        self.host.start()
        self.settle()

    def events(self, *types: str) -> list[dict[str, Any]]:
        """The events of these types so far."""
        return [event for event in self.host.events if event["type"] in types]

    def drops(self) -> list[tuple[str, str, str]]:
        """What was dropped: client, topic, reason."""
        return [(event["client"], event["topic"], event["reason"]) for event in self.events("q.drop")]

    def keys(self, first: bytes) -> list[bytes]:
        """The keys on disk that begin with this byte."""
        self.settle()
        return [key for key in self.disk.content() if key[:1] == first]


def option(text: str, qos: int = 0, **fields: Any) -> packets.SubscribeOptions:
    """One filter of a SUBSCRIBE; `fields` are v5's options."""
    return packets.SubscribeOptions(text, qos, **fields)


def publish(
    topic: str,
    payload: bytes = b"m",
    qos: int = 0,
    packet_id: int = 1,
    retain: bool = False,
    dup: bool = False,
    **properties: Any,
) -> packets.Publish:
    """A PUBLISH; the packet id counts above QoS 0 only."""
    return packets.Publish(topic, payload, qos, retain, dup, packet_id if qos else 0, properties or None)


def connect(
    client_id: str, version: int = 4, clean: bool = True, expiry_s: int | None = None, **fields: Any
) -> packets.Connect:
    """A CONNECT; what is no field of the packet is a property."""
    own = {name: fields.pop(name) for name in ("will", "username", "password", "keepalive_s") if name in fields}
    if expiry_s is not None:
        fields["session_expiry_interval"] = expiry_s
    return packets.Connect(client_id, version, clean, properties=fields or None, **own)

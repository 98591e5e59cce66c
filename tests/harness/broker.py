"""A node on virtual time for transcripts. The test sends and receives packets, and controls the disk."""

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
from strogoff.storage.store import LATEST_S

Properties = dict[str, Any]


class PacketClient(Peer):
    """A client without logic: it sends the packets of the test and returns the received packets."""

    def __init__(self, broker: BrokerHarness, version: int, **listener: Any) -> None:
        super().__init__(broker.host, version, **listener)
        self.broker = broker

    def ask(self, *sent: Any) -> list[Any]:
        """Send packets, run everything that is due, and return the received packets."""
        self.send(*sent)
        self.broker.settle()
        return self.take()

    def subscribe(self, *wanted: Any, packet_id: int = 1, **properties: Any) -> list[Any]:
        """Send SUBSCRIBE for (filter, QoS) pairs or full options. Returns the received packets."""
        options = [each if isinstance(each, packets.SubscribeOptions) else option(*each) for each in wanted]
        return self.ask(packets.Subscribe(packet_id, options, properties or None))

    def unsubscribe(self, *filters: str, packet_id: int = 1) -> list[Any]:
        """Send UNSUBSCRIBE. Returns the received packets."""
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
        """Send PUBLISH. Returns the received packets."""
        return self.ask(publish(topic, payload, qos, packet_id, retain, dup, **properties))

    def messages(self) -> list[packets.Publish]:
        """Returns the PUBLISH packets received since the last call, and drops all other received packets."""
        self.broker.settle()
        return [packet for packet in self.take() if isinstance(packet, packets.Publish)]

    def payloads(self) -> list[bytes]:
        """Returns the payloads of `messages`."""
        return [packet.payload for packet in self.messages()]

    def drain(self, limit: int = 100_000) -> list[packets.Publish]:
        """Take messages, and answer them completely, until no more arrive. Returns them."""
        found: list[packets.Publish] = []
        while True:
            self.broker.settle()
            came = self.take()
            if not came:
                self.broker.commit_late_writes()
                return found
            for packet in came:
                if isinstance(packet, packets.Publish):
                    found.append(packet)
                self.answer(packet)
            assert len(found) <= limit

    def answer(self, packet: Any) -> None:
        """Send the answer of a correct subscriber to a packet, if it needs one."""
        if isinstance(packet, packets.Pubrel):
            self.send(packets.Pubcomp(packet.packet_id))
        elif isinstance(packet, packets.Publish) and packet.qos:
            kind = packets.Puback if packet.qos == 1 else packets.Pubrec
            self.send(kind(packet.packet_id))

    def leave(self) -> None:
        """Send DISCONNECT: the session continues without a connection, or ends."""
        self.send(packets.Disconnect())
        self.broker.settle()

    def vanish(self) -> None:
        """Break the connection without DISCONNECT."""
        self.break_off()
        self.broker.settle()


class BrokerHarness:
    """One node and its disk. `options` are fields of `Options`; `level` is the level of the event log."""

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
        """Run everything that is due; no time passes."""
        self.loop.settle()

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        self.loop.run_for(seconds)

    def commit_late_writes(self) -> None:
        """Let so much time pass that the store commits the writes that nobody waits for."""
        self.pass_s(LATEST_S)
        self.settle()

    def client(
        self, client_id: str, version: int = 4, clean: bool = True, expiry_s: int | None = None, **fields: Any
    ) -> PacketClient:
        """Returns a connected client. `expiry_s` and the properties in `fields` need version 5; `will` is a `Will`."""
        client, connack = self.connect(client_id, version, clean, expiry_s, **fields)
        assert connack.reason == 0, connack
        return client

    def connect(
        self, client_id: str, version: int = 4, clean: bool = True, expiry_s: int | None = None, **fields: Any
    ) -> tuple[PacketClient, packets.Connack]:
        """Returns a client and its CONNACK. The client keeps the packets that followed CONNACK."""
        client = PacketClient(self, version)
        client.send(connect(client_id, version, clean, expiry_s, **fields))
        self.settle()
        connack, *rest = client.take()
        assert isinstance(connack, packets.Connack)
        client.received = rest
        return client, connack

    def persistent(self, client_id: str, version: int = 4, **fields: Any) -> PacketClient:
        """Returns a connected client with a persistent session: its existing one, or a new one."""
        return self.client(client_id, version, False, 1000 if version == 5 else None, **fields)

    def hold_disk(self) -> None:
        """Stall the disk: no write completes until `free_disk`."""
        self.disk.stall_until = inf

    def free_disk(self) -> None:
        """End the stall of the disk."""
        self.disk.stall_until = 0.0
        self.settle()

    def restart(self, power: bool = False) -> None:
        """Kill the process (`power`: cut the power of its machine), and start it again with the content of the disk."""
        self.disk.crash(power)
        self.host.kill()
        self.settle()
        self.disk = self.disk.reopen()
        self.disk.stall_until = 0.0
        self.host.start()
        self.settle()

    def events(self, *types: str) -> list[dict[str, Any]]:
        """Returns the events of these types so far."""
        return [event for event in self.host.events if event["type"] in types]

    def drops(self) -> list[tuple[str, str, str]]:
        """Returns client, topic and reason of each dropped message."""
        return [(event["client"], event["topic"], event["reason"]) for event in self.events("q.drop")]

    def keys(self, first: bytes) -> list[bytes]:
        """Returns the keys on disk that begin with this byte."""
        self.commit_late_writes()
        return [key for key in self.disk.content() if key[:1] == first]


def option(text: str, qos: int = 0, **fields: Any) -> packets.SubscribeOptions:
    """Returns a filter of a SUBSCRIBE; `fields` are options of MQTT 5."""
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
    """Returns a PUBLISH. With QoS 0 it has no packet id."""
    return packets.Publish(topic, payload, qos, retain, dup, packet_id if qos else 0, properties or None)


def connect(
    client_id: str, version: int = 4, clean: bool = True, expiry_s: int | None = None, **fields: Any
) -> packets.Connect:
    """Returns a CONNECT. Each of `fields` that is no field of the packet is a property."""
    own = {name: fields.pop(name) for name in ("will", "username", "password", "keepalive_s") if name in fields}
    if expiry_s is not None:
        fields["session_expiry_interval"] = expiry_s
    return packets.Connect(client_id, version, clean, properties=fields or None, **own)

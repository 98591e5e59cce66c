"""A model client: its connections, its knowledge of its session, its subscriptions and its wills.

Sending is in `Sender`, receiving in `Receiver`. `Behaviour` decides what the client does next.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from random import Random
from typing import Any

from ...mqtt import packets
from ..engine.host import Host
from ..engine.loop import VirtualLoop
from ..engine.peer import Peer
from ..engine.pipe import Mark
from ..history import NEVER, Connection, History, Subscribed, Will
from .receiver import Receiver
from .sender import Sender, payload
from .swarm import ClientSpec

PATIENCE_S = 15.0
"""Seconds that a client waits for CONNACK before it tries again."""
RETRY_S = (0.05, 0.5)
"""The range of the time before the next attempt to connect, in seconds."""
REFUSED_FOR_DISK = (3, 0x97)
"""Reason codes of CONNACK while the disk is full: Server unavailable in MQTT 3, Quota exceeded in 5."""
FOREVER = 0xFFFFFFFF


class ModelClient:
    """One client id.

    `wanted`: the client reconnects when it loses its connection. `gone`: it never connects again. `epoch` counts its
    sessions. `granted` are the filters of its session, `dropped` those that it has unsubscribed from.
    """

    def __init__(
        self,
        spec: ClientSpec,
        host: Host,
        history: History,
        rng: Random,
        delay_s: tuple[float, float],
        kept_s: int | None,
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.host = host
        self.loop: VirtualLoop = host.loop
        self.history = history
        self.rng = rng
        self.delay_s = delay_s
        self.kept_s = kept_s
        self.peer: Peer | None = None
        self.connection: Connection | None = None
        self.epoch = 0
        self.gone = False
        self.wanted = False
        self.superseded: list[tuple[float, Peer]] = []
        self.granted: dict[str, Subscribed] = {}
        self.asked: dict[int, list[Subscribed]] = {}
        self.dropped: set[str] = set()
        self.void = False  # the session ended with its connection: a session in the next CONNACK is another one
        self.discarded = False
        self._packet_id = 0
        history.connections[self.name] = []
        self.sender = Sender(history, self.name, self.send)
        self.receiver = Receiver(history, self.name, self.loop.call_later, self._answer)
        self.receiver.delay_s = spec.ack_delay_s
        self.lists: list[Connection] = history.connections[self.name]

    # -- connecting

    @property
    def server(self) -> Host:
        """The machine with the session of the client."""
        return self.host

    @property
    def connected(self) -> bool:
        """Whether CONNACK has arrived and the connection is open."""
        return self.connection is not None and self.connection.opened != NEVER

    def connect(self, clean: bool) -> None:
        """Open a connection. After a refusal the client tries again while it is `wanted`."""
        self.wanted = True
        if self.gone or self.peer is not None:
            return
        spec = self.spec
        clean = clean or self.must_begin
        try:
            peer = Peer(self.host, spec.version, self.rng, delay_s=self.delay_s)
        except ConnectionRefusedError:
            self.again()
            return
        history = self.history
        number = len(self.lists) + 1
        will = self._will(number)
        expiry = spec.expiry_s if spec.version == 5 else 0 if clean else self.kept_s
        connection = Connection(
            self.name, number, spec.version, clean, expiry, history.next(), history.now(), will, self.epoch
        )
        connection.pipe = peer.pipe
        connection.node, connection.gateway = self.server.name, self.host.name
        self.sender.go_to(connection.node)
        self.lists.append(connection)
        self.peer, self.connection = peer, connection
        peer.on_packet = partial(self._packet, peer)
        peer.on_closed = partial(self._closed, peer)
        self.discarded = clean
        peer.send(self._connect_packet(clean, expiry, will))
        history.trace(self.name, f"CONNECT #{number} clean={clean}")
        self.loop.call_later(PATIENCE_S, partial(self._impatient, peer))

    @property
    def must_begin(self) -> bool:
        """Whether the client must ask for a new session: it has ended its session, or cannot know whether it exists."""
        return self.discarded or self._perhaps_expired()

    def _connect_packet(self, clean: bool, expiry_s: int | None, will: Will | None) -> packets.Connect:
        properties: dict[str, Any] | None = None
        offered: packets.Will | None = None
        if self.spec.version == 5:
            properties = {
                "session_expiry_interval": FOREVER if expiry_s is None else expiry_s,
                "receive_maximum": self.spec.window,
            }
        if will is not None:
            delay = {"will_delay_interval": will.delay_s} if will.delay_s else None
            offered = packets.Will(will.topic, payload(will.key), will.qos, False, delay)
        return packets.Connect(self.name, self.spec.version, clean, 0, None, None, offered, properties)

    def _will(self, number: int) -> Will | None:
        if self.spec.will is None:
            return None
        qos, delay_s = self.spec.will
        return Will(f"{self.name}!{number}", f"w/{self.name}", qos, delay_s)

    def _perhaps_expired(self) -> bool:
        for each in reversed(self.lists):
            if each.opened != NEVER:
                expiry = each.expiry_s if each.final_expiry_s is None else each.final_expiry_s
                return expiry is not None and self.history.now() - self._absent_since(each) > expiry / 2
        return False

    def _absent_since(self, connection: Connection) -> float:
        """When the absence began: the primary may give up a gateway that is suspended before the client notices."""
        given_up_at = self.history.given_up.get(self.name, 0.0)
        return given_up_at if connection.opened_at < given_up_at < connection.closed_at else connection.closed_at

    def _impatient(self, peer: Peer) -> None:
        if self.peer is peer and not self.connected:
            self.lose()
            self.again()

    def again(self) -> None:
        """Try to connect after a short time, if the client is `wanted`."""
        if self.wanted and not self.gone:
            low, high = RETRY_S
            self.loop.call_later(low + (high - low) * self.rng.random(), self._retry)

    def _retry(self) -> None:
        if self.wanted and self.peer is None:
            self.connect(self.spec.expiry_s == 0)

    # -- ending

    def lose(self) -> None:
        """Close without DISCONNECT; sent packets still arrive."""
        peer = self.peer
        if peer is not None:
            peer.close()
            self.history.trace(self.name, "closes without DISCONNECT")
            self._ended()

    def disconnect(self, with_will: bool = False, expiry_s: int | None = None) -> None:
        """Send DISCONNECT and close. With MQTT 5 it may request the will, or set another session expiry in seconds."""
        peer, connection = self.peer, self.connection
        if peer is None or connection is None or not self.connected:
            return
        self.wanted = False
        properties = None
        if expiry_s is not None and self.spec.version == 5 and connection.expiry_s != 0:
            properties = {"session_expiry_interval": expiry_s}
            connection.final_expiry_s = expiry_s
        peer.send(packets.Disconnect(4 if with_will and self.spec.version == 5 else 0, properties))
        connection.polite = not (with_will and self.spec.version == 5)
        self.history.trace(self.name, f"DISCONNECT {'with will' if not connection.polite else ''}")
        peer.close()
        self._ended()

    def take_over(self) -> None:
        """Open a second connection with the same client id, while the node still serves the first."""
        peer = self.peer
        if peer is None or not self.connected:
            return
        peer.on_packet = _ignore
        peer.on_closed = None
        self.superseded.append((self.history.now(), peer))
        self.history.trace(self.name, "takes over from itself")
        self._ended()
        self.connect(self.spec.expiry_s == 0)

    def abandon(self) -> None:
        """Close the connection, and never connect again."""
        self.history.trace(self.name, "is gone for good")
        self.gone = True
        self.wanted = False
        self.lose()

    def _closed(self, peer: Peer) -> None:
        if peer is self.peer:
            self.history.trace(self.name, "connection lost")
            self._ended()
            self.again()

    def _ended(self) -> None:
        connection = self.connection
        assert connection is not None
        connection.closed = self.history.next()
        connection.closed_at = self.history.now()
        if connection.expiry_s == 0 and connection.opened != NEVER:
            self.void = True
        self.peer = self.connection = None
        self.asked.clear()

    # -- packets

    def send(self, *sent: Any) -> None:
        """Send packets on the present connection."""
        assert self.peer is not None
        if self.history.lines is not None:
            for packet in sent:
                self.history.trace(self.name, f"--> {_shown(packet)}")
        self.peer.send(*sent)

    def _answer(self, connection: int, packet: Any) -> bool:
        if self.connection is None or self.connection.number != connection:
            return False
        self.send(packet)
        return True

    def _packet(self, peer: Peer, packet: Any) -> None:
        if peer is not self.peer:
            return
        if self.history.lines is not None:
            self.history.trace(self.name, f"<-- {_shown(packet)}")
        mark = peer.pipe.to_client.arrived
        kind = type(packet)
        if not self.connected and kind is not packets.Connack:
            self.history.problem(f"{self.name}: {kind.__name__.upper()} before CONNACK")  # [MQTT-3.2.0-1]
        if kind is packets.Publish:
            self.receiver.publish(packet, mark[1])
        elif kind is packets.Puback:
            self.sender.puback(packet, mark)
        elif kind is packets.Pubrec:
            self.sender.pubrec(packet, mark)
        elif kind is packets.Pubrel:
            self.receiver.pubrel(packet)
        elif kind is packets.Pubcomp:
            self.sender.pubcomp(packet)
        elif kind is packets.Connack:
            self._connack(packet, mark)
        elif kind is packets.Suback:
            self._suback(packet, mark)
        elif kind is packets.Unsuback:
            self._unsuback(packet, mark)

    def _connack(self, packet: packets.Connack, mark: Mark) -> None:
        connection = self.connection
        assert connection is not None
        if packet.reason:
            if not self.may_be_refused("register", packet.reason, mark):
                self.history.problem(f"{self.name}: CONNECT refused with {packet.reason}")
            self.lose()
            self.again()
            return
        version3 = self.spec.version == 3
        if version3 and self.must_begin and not connection.clean:
            # the answer came late, and does not say whether the session had expired before the CONNECT was accepted
            self.lose()
            self.again()
            return
        present = not connection.clean and self._had_session() if version3 else packet.session_present
        self.discarded = False
        if not present or self.void:
            self.void = False
            self.epoch += 1
            self.granted.clear()
            self.dropped.clear()
            self.sender.forget()
            self.receiver.forget()
        connection.present = None if version3 else present
        connection.epoch = self.receiver.epoch = self.epoch
        connection.opened = self.history.next()
        connection.opened_at = self.history.now()
        self.sender.limit = min(10, (packet.properties or {}).get("receive_maximum", 65535))
        self.receiver.begin(connection.number)
        self.receiver.window = self.spec.window if self.spec.version == 5 else self.server.options.max_inflight_messages
        self.sender.resume()
        self.subscribe(self.wants)

    def may_be_refused(self, operation: str, reason: int, mark: Mark) -> bool:
        """Whether this refusal is allowed: the node may refuse a CONNECT while its disk is full."""
        assert self.connection is not None
        # the session may have moved while the answer was on its way
        nodes = {self.server.name, self.connection.node}
        # a primary may have refused it, and have free space again, while the refusal was on its way to the gateway
        relayed = self.server.name != self.connection.gateway
        since = self.connection.asked_at if relayed else mark[1]
        full = self.had_full_disk(nodes, since)
        # a gateway that does not follow the newest slot table yet asks a former primary, which may refuse as well
        full = full or self.history.refused_by_full.get(self.name, -1.0) >= self.connection.asked_at
        return operation == "register" and reason in REFUSED_FOR_DISK and full

    def had_full_disk(self, nodes: Iterable[str], since_s: float) -> bool:
        """Whether the disk of one of these nodes was full at any time since then."""
        return any(since_s <= self.history.life(node).full_until for node in nodes)

    def _had_session(self) -> bool:
        return any(each.opened != NEVER for each in self.lists[:-1]) and self.lists[-2].expiry_s != 0

    # -- subscriptions

    def subscribe(self, names: list[str]) -> None:
        """Subscribe to these of the client's filters."""
        if not names:
            return
        qos = dict(self.spec.filters)
        self._packet_id = self._packet_id % 65535 + 1
        asked = []
        for name in names:
            self.dropped.discard(name)
            found = Subscribed(self.name, self.epoch, name, qos[name], self.history.next())
            found.node, found.asked_at = self.server.name, self.history.now()
            asked.append(found)
        self.history.subscriptions += asked
        self.asked[self._packet_id] = asked
        options = [packets.SubscribeOptions(each.filter, each.qos) for each in asked]
        self.send(packets.Subscribe(self._packet_id, options))

    @property
    def wants(self) -> list[str]:
        """The filters that the client wants and that no SUBACK has granted."""
        return [name for name, _ in self.spec.filters if name not in self.granted and name not in self.dropped]

    def unsubscribe(self, name: str) -> None:
        """Unsubscribe from one of the filters."""
        held = self.granted.pop(name, None)
        if held is None:
            return
        self._packet_id = self._packet_id % 65535 + 1
        held.given_up = self.history.next()
        self.dropped.add(name)
        self.asked[self._packet_id] = [held]
        self.send(packets.Unsubscribe(self._packet_id, [name]))

    def _suback(self, packet: packets.Suback, mark: Mark) -> None:
        for each, reason in zip(self.asked.pop(packet.packet_id, []), packet.reasons, strict=True):
            if reason >= 0x80:
                if not self.may_be_refused("subscribe", reason, mark):
                    self.history.problem(f"{self.name}: SUBSCRIBE to {each.filter} refused with {reason}")
                self.not_granted(each)
                continue
            each.granted = self.history.next()
            each.granted_at = self.history.now()
            each.without_lease = mark[2]
            self.granted[each.filter] = each

    def not_granted(self, subscribed: Subscribed) -> None:
        """Hook: called for each refused filter."""

    def _unsuback(self, packet: packets.Unsuback, mark: Mark) -> None:
        for each in self.asked.pop(packet.packet_id, []):
            each.gone = self.history.next()

    # -- reading

    @property
    def reads(self) -> bool:
        """Whether the client reads from its connection."""
        return self.peer is not None and not self.peer.pipe.to_client.paused

    @property
    def is_read(self) -> bool:
        """Whether the node reads from the client."""
        return self.peer is not None and not self.peer.pipe.to_node.paused

    def pause(self) -> None:
        """Stop reading."""
        if self.peer is not None:
            self.history.trace(self.name, "stops reading")
            self.peer.pipe.to_client.pause()

    def read_on(self) -> None:
        """Read again."""
        if self.peer is not None:
            self.peer.pipe.to_client.resume()


def _ignore(packet: Any) -> None:
    """Drop a packet of a connection that the client has replaced by a new one."""


def _shown(packet: Any) -> str:
    if isinstance(packet, packets.Publish):
        key = packet.payload.partition(b"|")[0].decode()
        flags = (" dup" if packet.dup else "") + (" retain" if packet.retain else "")
        return f"PUBLISH {packet.topic} {key} qos={packet.qos} id={packet.packet_id}{flags}"
    fields = [f"{name}={getattr(packet, name)}" for name in packet.__struct_fields__ if name != "properties"]
    return f"{type(packet).__name__.upper()} {' '.join(fields)}"

"""The front: the MQTT protocol machine of one connection, the same for 3.1, 3.1.1 and 5.0.

It is a core. Bytes come in by `receive`; what goes out is gathered in `out` and leaves in one write per loop turn
(`Node.flush`). Packets other than PUBLISH and PUBACK are handled by functions in the modules named after them.

Acknowledgements leave in the order of the packets that they answer. One that needs the disk waits in `pending` for its
commit; one that needs none goes at once, unless others wait before it. While a hook's answer is awaited the front is
*held*: nothing is read, packets already decoded wait in `held`. So do packets beyond those that a connection may have
handled in one turn of the loop (`turns`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import ref

from ...mqtt import packets
from ...mqtt.decoder import WILL_BYTES, Decoder
from ...mqtt.encoder import PACKET_IDS
from ...mqtt.errors import ProtocolError, WireError
from ...mqtt.packets import Puback, Publish
from ...mqtt.reasons import ReasonCode
from ...mqtt.wire import MAX_VARINT
from ..plugins.hooks import Subscriber
from ..queues.message import Message
from . import auth, connect, publish, refusal, subscribe
from .ack_queue import PUBLISH, REGISTER, AckQueue, Item
from .flow_control import TURN
from .transport import ClientTransport, ConnectionOrigin

if TYPE_CHECKING:
    from ..node import Node
    from ..options import Options
    from ..sessions.session import Session

_PUBACK = b"\x40\x02"
_ACKNOWLEDGEMENTS = frozenset((Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp))


class ClientConnection(AckQueue):
    """One connection. `session` is None before CONNECT was accepted and after the connection was given up."""

    __slots__ = (
        "__weakref__",
        "aliases_in",
        "auth_method",
        "authenticating",
        "begun",
        "bridge",
        "client_id",
        "connect_packet",
        "decoder",
        "feed",
        "keepalive_ms",
        "lost_for",
        "message_limit",
        "modifiers",
        "mountpoint",
        "origin",
        "packets_this_second",
        "parked",
        "peer",
        "permitted",
        "plans",
        "problem_information",
        "rate_second",
        "receive_maximum",
        "subscriber",
        "topic_alias_max",
        "unreleased",
        "username",
        "when_authenticated",
        "window",
    )

    def __init__(self, node: Node, link: ClientTransport, origin: ConnectionOrigin) -> None:
        super().__init__(node, link)
        self.origin = origin
        self.peer = (origin.peer_host, origin.peer_port)
        self.message_limit = node.options.max_message_size or MAX_VARINT
        self.decoder = _decoder(node.options, self.message_limit)
        self.feed = self.decoder.feed
        self.mountpoint = ""
        self.client_id = ""
        self.bridge = False
        self.username: str | None = origin.username
        self.subscriber = Subscriber("", "")
        self.plans: Any = None
        self.unreleased: set[int] = set()
        self.parked: list[tuple[str, Any, tuple[Any, ...]]] = []
        self.begun: list[Item] = []
        self.receive_maximum = 1 << 30
        self.window = 0
        self.problem_information = True
        self.aliases_in: dict[int, str] = {}
        self.topic_alias_max = 0
        self.permitted: dict[str, int] = {}
        self.modifiers: dict[str, Any] = {}
        self.auth_method: str | None = None
        self.authenticating = False
        self.when_authenticated: Callable[[ClientConnection], None] | None = None
        self.connect_packet: packets.Connect | None = None
        self.keepalive_ms = 0
        self.packets_this_second = 0
        self.rate_second = 0
        self.lost_for = ""
        self.await_client()

    # -- in

    def receive(self, data: bytes) -> None:
        """Bytes from the peer, as they came."""
        node = self.node
        self.last_seen = node.now = node.clock.now_ms()
        packets_in = self.feed(data)
        if self.held is not None:
            self.held.extend(packets_in)
        else:
            self.process(packets_in)

    def process(self, packets_in: list[Any]) -> None:
        """Handle decoded packets in order, until one has to wait."""
        if self.session is None:
            packets_in = self._process_unconnected(packets_in)
            if self.closed:
                return
        rest: list[Any] = []
        if len(packets_in) > self.per_turn:
            rest = packets_in[self.per_turn :]
            packets_in = packets_in[: self.per_turn]
        publishes = 0
        permitted = self.permitted
        node = self.node
        epoch = node.hooks.epoch
        todo = iter(packets_in)
        for packet in todo:
            kind = type(packet)
            if kind is Publish:
                publishes += 1
                topic = packet.topic
                if packet.properties is None and permitted.get(topic) == epoch and not node.wary:
                    self.accept(topic, packet.payload, packet.qos, packet.retain, None, 0, packet.packet_id)
                else:
                    publish.publish(self, packet)
                    epoch = self.node.hooks.epoch
            elif kind is Puback:
                self._puback(packet)
            else:
                HANDLERS[kind](self, packet)
            if self.held is not None:
                self.held.extend(todo)
                break
            if self.closed:
                return
        if publishes:
            self.node.counters.publish_received[self.version == 5] += publishes
            self._check_flow()
        if node.options.max_message_rate or self.modifiers:
            self._check_rate(packets_in)
        if rest or self.decoder.more:
            self.wait_for_turn(rest)
        elif self.decoder.error is not None and self.held is None:
            self.wire_error(self.decoder.error)

    def more_packets(self, have: int) -> list[Any]:
        """Packets that came and are not decoded yet: some of them, if fewer than a turn takes are there."""
        return self.feed(b"") if have < self.per_turn and self.decoder.more else []

    def _process_unconnected(self, packets_in: list[Any]) -> list[Any]:
        """Before CONNECT was accepted: CONNECT, AUTH, DISCONNECT (MQTT 5.0 section 4.12). Returns what comes after."""
        for number, packet in enumerate(packets_in, 1):
            if type(packet) not in FIRST_PACKETS:
                self.wire_error(ProtocolError("the connection is not accepted yet"))
                return []
            HANDLERS[type(packet)](self, packet)
            if self.held is not None:
                self.held.extend(packets_in[number:])
                return []
            if self.session is not None:
                return packets_in[number:]
            if self.closed:
                return []
        return []

    def accept(
        self,
        topic: str,
        payload: bytes,
        qos: int,
        retain: bool,
        properties: dict[str, Any] | None,
        expires_at: int,
        packet_id: int,
        routed_qos: int | None = None,
        checked: bool = False,
    ) -> None:
        """First acceptance of an authorised PUBLISH: route it, then answer (docs/architecture.md, section 4).

        It is answered as `qos` demands; `routed_qos` is another QoS for its subscribers, where a plugin set one.
        `checked` says that `inbound.accept` has looked at limits and policy already.
        """
        node = self.node
        if not checked and (node.wary or retain or (qos and (self.unacked >= self.receive_maximum or qos == 2))):
            publish.accept(self, topic, payload, qos, retain, properties, expires_at, packet_id, routed_qos)
            return
        answered_qos = qos
        if routed_qos is not None:
            qos = routed_qos
        node.numbers.counter = counter = node.numbers.counter + 1
        message = Message(
            self.mountpoint, topic, payload, qos, retain, properties, expires_at, self.client_id, node.origin, counter
        )
        if node.events.messages:
            node.message_received(self, message, packet_id)
        routed = node.route_retained(message, self.plans) if retain else node.router.route(message, self.plans)
        if answered_qos:
            self._puback_for(packet_id, routed, message)
        elif node.owed is not None:
            node.owed = None

    def _puback_for(self, packet_id: int, routed: int, message: Message) -> None:
        """PUBACK [MQTT-3.3.4-1]; 0x10 tells a v5 client that nobody was there (MQTT 5.0 section 3.4.2.1)."""
        if routed or self.version != 5:
            frame = _PUBACK + PACKET_IDS[packet_id]
        else:
            frame = b"\x40\x03" + PACKET_IDS[packet_id] + b"\x10"
        node = self.node
        if node.events.messages:
            self.promise(node.message_acked(self, message, frame), routed == 2, 1)
        elif routed == 2 or self.pending or node.owed is not None:
            self.promise(frame, routed == 2, 1)
        else:
            self.promised |= PUBLISH
            self.write(frame)
        node.counters.puback_sent += 1

    def _puback(self, packet: Puback) -> None:
        session = self.session
        assert session is not None
        self.node.counters.puback_received += 1
        if self.node.events.messages:
            self.node.message_answered(session, packet.packet_id)
        if not session.queue.ack(packet.packet_id):
            self.node.counters.puback_invalid += 1
            publish.not_expected(self, session, packet)

    # -- flow

    def _check_flow(self) -> None:
        node = self.node
        if self.pending:
            self.bound_answers()
        if node.store.bytes_waiting > node.options.pause_reading_bytes:
            self.pause("disk")
            node.store.when_committed(node.store.open_commit, lambda: self.unpause("disk"))
        if node.congested is not None and (slow := node.congested(self.mountpoint, self.client_id)):
            self.pause("cluster")
            node.when_relieved(slow, self)

    def _check_rate(self, packets_in: list[Any]) -> None:
        """`max_message_rate` counts all packets but acknowledgements, of which we asked for as many as we wait for."""
        node = self.node
        rate = self.modifiers.get("max_message_rate", node.options.max_message_rate)
        if not rate:
            self.per_turn = self.turn_size
            return
        second = node.now // 1000
        if second != self.rate_second:
            self.rate_second = second
            self.packets_this_second = 0
        handled = len(packets_in) - len(self.held or ())
        self.packets_this_second += sum(type(packet) not in _ACKNOWLEDGEMENTS for packet in packets_in[:handled])
        self.per_turn = min(max(1, rate - self.packets_this_second), self.turn_size)
        if self.packets_this_second > rate:
            self.throttle(1000 - node.now % 1000)

    def when_accepting(self, then: Callable[[ClientConnection], None]) -> None:
        """Go on once more may be accepted than now; a connection that is gone until then is not kept for it."""
        weak = ref(self)

        def go_on() -> None:
            front = weak()
            if front is not None:
                then(front)

        self.node.when_accepting(go_on)

    def await_client(self) -> None:
        """The client's next step towards a session, CONNECT or AUTH, has to come within `mqtt_connect_timeout`."""
        self.set_timer("connect", self.node.options.mqtt_connect_timeout_ms, self._connect_timeout)

    def _connect_timeout(self) -> None:
        if self.session is None:
            self.node.connect_refused(self, 0, "connect_timeout")
            self.drop("connect_timeout")

    # -- the end

    def wire_error(self, error: WireError) -> None:
        """The peer broke the rules: tell it the reason where its version can, then close [MQTT-4.8.0-1]."""
        if self.closed:
            return
        if error.reason == ReasonCode.PACKET_TOO_LARGE:
            self.node.counters.invalid_msg_size[self.version == 5] += 1
        if self.session is None:
            refusal.refuse_malformed(self, error)
        else:
            self.disconnect(error.reason, error.detail)

    def unsendable(self, packet: Any) -> None:
        """An answer that the client must get, and cannot take, ends the connection; a last packet is left out."""
        if not isinstance(packet, packets.Connack | packets.Disconnect):
            name = type(packet).__name__.upper()
            detail = f"{name} is larger than the client's maximum packet size, {self.client_packet_limit} bytes"
            self.disconnect(ReasonCode.PACKET_TOO_LARGE, detail)

    def disconnect(self, reason: ReasonCode, detail: str = "") -> None:
        """Close the connection, v5 clients are told why [MQTT5-3.14.4-1]; the will is sent."""
        if self.closed:
            return
        if self.version == 5 and self.connected:  # [MQTT5-3.14.0-1]
            properties = {"reason_string": detail} if detail and self.problem_information else None
            self.send_packet(packets.Disconnect(reason, properties))
            self.node.counters.disconnect_sent(reason)
        self.drop(reason.name.lower(), detail=detail)

    def give_up(self, promised: int, detail: str) -> None:
        """End a connection whose answers to these operations (bits) may not leave. Nothing left since then.

        A client that waits for CONNACK gets one with a reason: that is the first packet [MQTT-3.2.0-1] [MQTT5-3.2.0-1].
        """
        self.promised = 0
        self.out.clear()
        if promised & REGISTER and not self.closed:
            self.send_packet(refusal.connack(self, ReasonCode.SERVER_UNAVAILABLE, detail))
            self.drop("server_unavailable", False, detail)
        else:
            self.disconnect(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, detail)

    def too_late(self) -> None:
        """Another node did not take in time what it has to have before we may answer."""
        self.disconnect(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, "another node does not answer: send again")

    def taken_over(self) -> None:
        """Another connection has this client id now; the session is no longer ours [MQTT-3.1.4-2] [MQTT5-3.1.4-3]."""
        session = self.session
        if self.version == 5 and self.connected:
            self.send_packet(packets.Disconnect(ReasonCode.SESSION_TAKEN_OVER))
            self.node.counters.disconnect_sent(ReasonCode.SESSION_TAKEN_OVER)
        self.session = None
        self._close("session_taken_over", session)

    def drop(self, reason: str, fire_will: bool = True, detail: str = "") -> None:
        """Give the connection up: flush, close, and let the session go on without it."""
        if self.closed:
            return
        session = self.session
        self.session = None
        self._close(reason, session, detail)
        if session is not None and session.front is self:
            session.detach(fire_will)

    def _close(self, reason: str, session: Session | None, detail: str = "") -> None:
        self.is_writable = False
        self.flush()
        self.closed = True
        self.pending.clear()
        self.held = None
        for timer in self.timers.values():
            self.node.timers.cancel(timer)
        self.timers.clear()
        self.node.front_closed(self, reason, session, detail)
        self.link.close()

    def lost(self, reason: str) -> None:
        """The connection is gone, by whatever cause; what it sent before and only waits for its turn still counts."""
        self.node.now = self.node.clock.now_ms()
        if self.held_for == {TURN} and not self.paused_for - {"held"}:
            self.lost_for = reason
        else:
            self.drop(reason)

    def next_turn(self) -> int:
        """As `FlowControl.next_turn`; the last turn of a connection that is gone ends it."""
        handled = super().next_turn()
        if self.lost_for and (self.held_for != {TURN} or self.paused_for - {"held"}):
            self.drop(self.lost_for)
        return handled


def _decoder(options: Options, message_limit: int) -> Decoder:
    """A decoder that takes no packet larger than a CONNECT until one was accepted."""
    size = options.max_connect_bytes
    limit = min(size + WILL_BYTES, message_limit) if size else message_limit
    return Decoder("server", 0, limit, 0, size, options.max_filters_per_packet)


HANDLERS: dict[type, Callable[[ClientConnection, Any], None]] = {
    packets.Connect: connect.connect,
    packets.Pubrec: publish.pubrec,
    packets.Pubrel: publish.pubrel,
    packets.Pubcomp: publish.pubcomp,
    packets.Subscribe: subscribe.subscribe,
    packets.Unsubscribe: subscribe.unsubscribe,
    packets.Pingreq: connect.pingreq,
    packets.Disconnect: connect.disconnect,
    packets.Auth: auth.auth,
}
"""What a front does with a packet that is neither PUBLISH nor PUBACK."""

FIRST_PACKETS = (packets.Connect, packets.Auth, packets.Disconnect)

"""One client connection: the MQTT protocol machine, the same for 3.1, 3.1.1 and 5.0.

It is a core. Bytes come in by `receive`; frames are gathered in `output` and leave in one write per loop turn.
A PUBLISH on a topic that the client may use is handled here; every other packet by a function of `dispatch`.

`output` encodes and writes, `flow` decides when the socket is read, `acks` keeps the answers in the order of the
packets that they answer. While a plugin decides, the connection is *held*: the socket is not read, and packets that are
already decoded wait in `flow.held`. A connection is also held after it has handled its number of packets in one turn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import ref

import msgspec

from ...mqtt import packets
from ...mqtt.decoder import WILL_BYTES, Decoder
from ...mqtt.encoder import PACKET_IDS
from ...mqtt.errors import ProtocolError, WireError
from ...mqtt.packets import Puback, Publish
from ...mqtt.reasons import ReasonCode
from ...mqtt.wire import MAX_VARINT
from ...netsplit.policy import ViewState
from ..options import Options
from ..plugins.hooks import Subscriber
from ..queues.message import Message
from ..routing.ack_context import AckContext
from ..routing.router import AFTER_COMMIT
from ..sessions.session import Session
from .ack_queue import PUBLISH, AckQueue
from .ended import ENDED
from .flow_control import UNROUTED, FlowControl
from .handshake import Authentication, Handshake
from .output_buffer import OutputBuffer
from .publish_state import PublishRequest, PublishState, request_of
from .rate_limit import RateLimit
from .services import ConnectionServices
from .states import TRANSITIONS, Event, State
from .timers import ConnectionTimers
from .transport import PEER_CLOSED, ClientTransport, ConnectionOrigin
from .turns import COPIES_PER_TURN

_PUBACK = b"\x40\x02"
_CLOSED = State.CLOSED


class PacketHandlers(msgspec.Struct):
    """The functions that handle packets.

    `others` has them by packet type; `first` are the types that are allowed before CONNECT is accepted. `publish` gets
    a PUBLISH that plugins may have to authorise, `accept` one that is authorised.
    """

    publish: Callable[[ClientConnection, packets.Publish], None]
    accept: Callable[[ClientConnection, PublishRequest], None]
    puback: Callable[[ClientConnection, packets.Puback], None]
    others: dict[type, Callable[[ClientConnection, Any], None]]
    first: frozenset[type]
    refuse_malformed: Callable[[ClientConnection, WireError], None]


FAILOVER_GRACE_S = 5
"""How long the will of a durable session waits after an end that the cluster made itself: the client is well, and
connects again (H-39)."""
GATEWAY_STOPPED = "gateway_stopped"
"""The reason when only the gateway of the client stops: this node goes on with the session."""
LEASE_LOST = "lease_lost"
"""The reason when this node may not answer the client any more: it has no lease, or other nodes have got its slots."""
CLUSTER_ENDS = frozenset(("gateway_lost", GATEWAY_STOPPED, "fenced", "left", "moved", LEASE_LOST))
"""The reasons of such an end, here or at the gateway: `left` if this node has left the view of the gateway."""
SHUTTING_DOWN = ReasonCode.SERVER_SHUTTING_DOWN.name.lower()
"""The reason when this node stops: such an end if another node continues the session."""


class ClientConnection:
    """One client connection. `session` is None before CONNECT is accepted and after the connection is closed."""

    __slots__ = (
        "__weakref__",
        "_context",
        "_lost_for",
        "_rate",
        "acks",
        "auth",
        "bridge",
        "client_id",
        "decoder",
        "env",
        "flow",
        "handlers",
        "handshake",
        "modifiers",
        "mountpoint",
        "number",
        "origin",
        "output",
        "peer",
        "problem_information",
        "publishing",
        "services",
        "session",
        "state",
        "subscriber",
        "timers",
        "username",
    )

    def __init__(
        self,
        services: ConnectionServices,
        transport: ClientTransport,
        origin: ConnectionOrigin,
        handlers: PacketHandlers,
    ) -> None:
        self.services = services
        self.env = env = services.env
        services.connections = self.number = services.connections + 1
        self.origin = origin
        self.handlers = handlers
        self.state = State.OPEN
        self.session: Session | None = None
        self.timers = ConnectionTimers(env)
        self.output = OutputBuffer(env, services.flusher, transport, self)
        self.flow = FlowControl(services, transport, self)
        self.acks = AckQueue(env, self.output, self.flow, self)
        self.decoder = _decoder(env.options)
        self.decoder.stops = services.relay is not None
        self.peer = (origin.peer_host, origin.peer_port)
        self.mountpoint = ""
        self.client_id = ""
        self.username: str | None = origin.username
        self.subscriber = Subscriber("", "")
        self.bridge = False
        self.modifiers: dict[str, Any] = {}
        self.problem_information = True
        self.handshake: Handshake | None = None
        self.auth = Authentication()
        self.publishing = PublishState()
        self._rate = RateLimit()
        self._context = AckContext()
        self._lost_for = ""
        self.await_client()

    @property
    def version(self) -> int:
        """The protocol version: 3, 4 or 5."""
        return self.output.version

    @property
    def gateway(self) -> str:
        """As `SessionConnection.gateway`."""
        return self.origin.gateway

    @property
    def connected(self) -> bool:
        """True if CONNACK was sent, and the connection is not closed."""
        return self.state is State.CONNECTED

    @property
    def closed(self) -> bool:
        """True after the broker has closed the connection."""
        return self.state is _CLOSED

    @property
    def leaving(self) -> bool:
        """As `SessionConnection.leaving`."""
        return bool(self._lost_for or self.output.transport.gone_for)

    def change(self, event: Event) -> None:
        """Enter the state that follows this event."""
        self.state = TRANSITIONS[self.state, event]

    # -- in

    def receive(self, data: bytes) -> None:
        """Handle bytes from the peer; packets may be cut anywhere."""
        flow, env = self.flow, self.env
        flow.last_seen = env.now = env.clock.now_ms()
        packets_in = self.decoder.feed(data)
        if flow.held is not None:
            flow.held.extend(packets_in)
        else:
            self.process(packets_in)

    def process(self, packets_in: list[Any]) -> None:
        """Handle decoded packets in order, until one has to wait."""
        if self.session is None:
            packets_in = self._process_unconnected(packets_in)
            if self.state is _CLOSED:
                return
        flow, env, handlers = self.flow, self.env, self.handlers
        rest: list[Any] = []
        if len(packets_in) > flow.per_turn:
            rest = packets_in[flow.per_turn :]
            packets_in = packets_in[: flow.per_turn]
        publishes = 0
        publishing, policy = self.publishing, self.services.policy
        permitted = publishing.permitted
        counters = env.counters
        most_copies = counters.router_matches_local + COPIES_PER_TURN
        epoch = env.hooks.epoch
        todo = iter(packets_in)
        for packet in todo:
            kind = type(packet)
            if kind is Publish:
                if self.acks.unrouted and packet.qos < 2:  # it must not overtake these messages of the client
                    flow.hold(UNROUTED)
                    flow.held = [packet, *todo]
                    break
                publishes += 1
                topic = packet.topic
                if packet.properties is None and permitted.get(topic) == epoch and not policy.restricted:
                    qos = packet.qos
                    if packet.retain or qos == 2 or (qos and self.acks.unacked >= publishing.receive_maximum):
                        handlers.accept(self, request_of(packet))
                    else:
                        self.accept(packet)
                else:
                    handlers.publish(self, packet)
                    epoch = env.hooks.epoch
                if counters.router_matches_local >= most_copies and self.state is not _CLOSED:
                    flow.wait_for_turn([])
            elif kind is Puback:
                handlers.puback(self, packet)
            else:
                handlers.others[kind](self, packet)
            if flow.held is not None:
                flow.held.extend(todo)
                break
            if self.state is _CLOSED:
                counters.publish_received[self.output.version == 5] += publishes
                return
        if publishes:
            counters.publish_received[self.output.version == 5] += publishes
        if publishes or self.acks.waiting:
            self._check_flow(publishes)
        if env.options.max_message_rate or self.modifiers:
            handled = packets_in[: len(packets_in) - len(flow.held or ())]
            rate = self.modifiers.get("max_message_rate", env.options.max_message_rate)
            self._rate.count(handled, rate, env.now, flow)
        if rest or self.decoder.more:
            flow.wait_for_turn(rest)
        elif self.decoder.error is not None and flow.held is None:
            self.wire_error(self.decoder.error)

    def more_packets(self, have: int) -> list[Any]:
        """Decode and return more of the received packets, if `have` is less than a turn handles."""
        return self.decoder.feed(b"") if have < self.flow.per_turn and self.decoder.more else []

    def _process_unconnected(self, packets_in: list[Any]) -> list[Any]:
        """Handle CONNECT, AUTH and DISCONNECT before the client is accepted (MQTT 5.0 section 4.12).

        Returns the packets that follow the acceptance.
        """
        handlers, flow = self.handlers, self.flow
        for number, packet in enumerate(packets_in, 1):
            if type(packet) not in handlers.first:
                self.wire_error(ProtocolError("the connection is not accepted yet"))
                return []
            handlers.others[type(packet)](self, packet)
            if flow.held is not None:
                flow.held.extend(packets_in[number:])
                return []
            if self.session is not None:
                return packets_in[number:]
            if self.state is _CLOSED:
                return []
        return []

    def accept(self, packet: Publish) -> None:
        """First acceptance of a PUBLISH without properties: route it, then answer (docs/architecture.md, section 4)."""
        env, plans, router = self.env, self.publishing.plans, self.services.router
        topic, qos = packet.topic, packet.qos
        assert plans is not None
        plan = plans.plans.get(topic) or router.waking.plan(plans, topic)
        if plan is None:
            self.handlers.accept(self, request_of(packet))
            return
        numbers = env.numbers
        if env.events.messages:
            counter = numbers.next(env.observer.choice.takes(self.client_id, topic))
        else:
            numbers.counter = counter = numbers.counter + 1
        message = Message(
            self.mountpoint, topic, packet.payload, qos, False, None, 0, self.client_id, env.origin, counter
        )
        if env.events.messages:
            env.observer.message_received(self, message, packet.packet_id)
        context = self._context
        routed = router.route(message, plans, context, plan)
        if qos:
            self.send_puback(packet.packet_id, routed, message, context)
        elif context.pending is not None:
            context.pending = None

    def send_puback(self, packet_id: int, routed: int, message: Message, context: AckContext) -> None:
        """PUBACK [MQTT-3.3.4-1]; 0x10 tells a v5 client that there is no subscriber (MQTT 5.0 section 3.4.2.1)."""
        output = self.output
        if routed or output.version != 5:
            frame = _PUBACK + PACKET_IDS[packet_id]
        else:
            frame = b"\x40\x03" + PACKET_IDS[packet_id] + b"\x10"
        acks, counters = self.acks, self.env.counters
        if self.env.events.messages:
            acks.accept(self.acknowledge(message, packet_id, 1, frame), routed == AFTER_COMMIT, context, 1)
        elif routed == AFTER_COMMIT or acks.waiting or context.pending is not None:
            acks.accept(frame, routed == AFTER_COMMIT, context, 1)
        else:
            output.accepted |= PUBLISH
            output.write(frame)
            counters.puback_wait.at_once += 1
        counters.puback_sent += 1

    def acknowledge(
        self, message: Message, packet_id: int, qos: int, frame: bytes, by_policy: bool = False
    ) -> Callable[[], None]:
        """Return a function that sends the acknowledgement of a PUBLISH; the event log gets it once it has left (H-04).
        The frame of a refusal, or of a message without subscribers, ends with its code. `by_policy`: the message was
        accepted without a lease, on an earlier connection."""
        code = frame[4] if len(frame) > 4 else 0
        told = partial(self.env.observer.message_acked, self, message, packet_id, qos, code)
        right = partial(_by_policy, told) if by_policy else self.by_its_right(told, "publish")
        return self.logged(frame, right)

    def logged(self, frame: bytes, told: Callable[[str], None]) -> Callable[[], None]:
        """Return a function that sends the frame. `told` writes the row of the event log once the frame has left, and
        gets the right by which it has (`ClusterPort.right`)."""

        def send() -> None:
            self.output.write(frame)
            self.output.acked.append(told)

        return send

    def by_its_right(self, told: Callable[[str], None], operation: str) -> Callable[[str], None]:
        """Return `told` for the answer to an operation that is accepted now. Without a lease it waits for no other
        node, so it leaves by the right of the policy, also if the lease is back by then."""
        return partial(_by_policy, told) if self.accepts_by_policy(operation) else told

    def accepts_by_policy(self, operation: str) -> bool:
        """Whether an operation is accepted without a lease now, because the policy allows it."""
        policy = self.services.policy
        return policy.view_state is ViewState.MINORITY and policy.allows(operation, self.modifiers)

    # -- flow

    def _check_flow(self, publishes: int) -> None:
        env, flow = self.env, self.flow
        if self.acks.waiting:
            self.acks.bound()
        if env.store.bytes_unsafe > env.options.pause_reading_bytes:
            flow.pause("disk")
            env.store.when_committed(env.store.open_commit, lambda: flow.unpause("disk"))
        if publishes and (slow := env.cluster.congested(self.mountpoint, self.client_id)):
            flow.pause("cluster")
            env.cluster.when_relieved(slow, self)

    def unpause(self, reason: str) -> None:
        """Remove this reason to pause. Reading resumes when no other reason is left."""
        self.flow.unpause(reason)

    def not_taken(self, size: int) -> None:
        """The output writes `size` bytes of answers although the transport's buffer is full."""
        self.flow.not_taken(size)

    def writable(self, flag: bool) -> None:
        """The transport's buffer is full (False) or has room again (True)."""
        self.flow.writable(flag)
        self.output.writable(flag)

    def go_on(self, packets_in: list[Any]) -> None:
        """Handle packets that have waited."""
        self.process(packets_in)
        self._end_if_lost()

    def next_turn(self) -> int:
        """As `FlowControl.next_turn`."""
        handled = self.flow.next_turn()
        self._end_if_lost()
        return handled

    def _end_if_lost(self) -> None:
        """If the transport is lost, close the connection after its last packets. If the client has closed it, its
        DISCONNECT may wait for a plugin, a rate or the disk: without it the will would be published."""
        if self._lost_for:
            by_client = self._lost_for == PEER_CLOSED and self.session is not None
            if not (self.flow.goes_on if by_client else self.flow.waits_for_turn):
                self.drop(self._lost_for)

    def when_accepting(self, then: Callable[[ClientConnection], None]) -> None:
        """Call `then` after the next change of disk or view, which may let the node accept more.

        The policy keeps only a weak reference to the connection.
        """
        weak = ref(self)

        def go_on() -> None:
            connection = weak()
            if connection is not None:
                then(connection)

        self.services.policy.when_accepting(go_on)

    def await_client(self) -> None:
        """Close the connection if the client's next CONNECT or AUTH takes longer than `mqtt_connect_timeout`."""
        self.timers.set("connect", self.env.options.mqtt_connect_timeout_ms, self._connect_timeout)

    def _connect_timeout(self) -> None:
        if self.session is None:
            self.env.observer.connect_refused(self, 0, "connect_timeout")
            self.drop("connect_timeout")

    # -- the end

    def wire_error(self, error: WireError) -> None:
        """The peer violated the protocol: send the reason if its version allows that, then close [MQTT-4.8.0-1]."""
        if self.closed:
            return
        if error.reason == ReasonCode.PACKET_TOO_LARGE:
            self.env.counters.invalid_msg_size[self.version == 5] += 1
        if self.session is None:
            self.handlers.refuse_malformed(self, error)
        else:
            self.disconnect(error.reason, error.detail)

    def unsendable(self, packet: Any) -> None:
        """The packet is larger than the client accepts: close the connection, unless it is CONNACK or DISCONNECT."""
        if not isinstance(packet, packets.Connack | packets.Disconnect):
            name = type(packet).__name__.upper()
            detail = f"{name} is larger than the client's maximum packet size, {self.output.packet_limit} bytes"
            self.disconnect(ReasonCode.PACKET_TOO_LARGE, detail)

    def too_late(self) -> None:
        """Another node did not confirm in time: disconnect the client."""
        self.disconnect(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, "another node does not answer: send again")

    def disconnect(self, reason: ReasonCode, detail: str = "", why: str = "") -> None:
        """Close the connection; a v5 client gets the reason [MQTT5-3.14.4-1]. The will is published after its delay.

        `why` is the reason for this node, if the client's reason does not tell it (`CLUSTER_ENDS`).
        """
        if self.closed:
            return
        if self.version == 5 and self.connected:  # [MQTT5-3.14.0-1]
            properties = {"reason_string": detail} if detail and self.problem_information else None
            self.output.send_packet(packets.Disconnect(reason, properties))
            self.env.counters.disconnect_sent(reason)
        self.drop(why or reason.name.lower(), detail=detail)

    def taken_over(self) -> None:
        """Another connection has taken over the client id and the session: close [MQTT-3.1.4-2] [MQTT5-3.1.4-3]."""
        session = self.session
        if self.version == 5 and self.connected:
            self.output.send_packet(packets.Disconnect(ReasonCode.SESSION_TAKEN_OVER))
            self.env.counters.disconnect_sent(ReasonCode.SESSION_TAKEN_OVER)
        self.session = None
        self._close("session_taken_over", session)

    def moved(self) -> None:
        """As `SessionConnection.moved`."""
        self.drop("moved")

    def end_if_cut(self) -> None:
        """As `SessionConnection.end_if_cut`."""
        reason = self._lost_for or self.output.transport.gone_for
        if reason in CLUSTER_ENDS:
            self.drop(reason)

    def drop(self, reason: str, fire_will: bool = True, detail: str = "") -> None:
        """Write the remaining output, close the connection, and detach its session."""
        if self.closed:
            return
        session = self.session
        self.session = None
        self._close(reason, session, detail)
        if session is not None and session.connection is self:
            session.detach(fire_will, FAILOVER_GRACE_S if self._comes_back(reason, session) else 0)

    def _comes_back(self, reason: str, session: Session) -> bool:
        """True if the cluster itself ends the connection, and the client can go on at another node at once."""
        return reason in CLUSTER_ENDS or (
            reason == SHUTTING_DOWN and session.in_slot and self.env.cluster.continues(session.key[0])
        )

    def _close(self, reason: str, session: Session | None, detail: str = "") -> None:
        self.output.is_writable = False
        self.output.flush()
        opened = session is not None and self.connected
        self.change(Event.CLOSE)
        self.flow.held = None
        self.timers.cancel_all()
        closed = self.services.closed(self)
        self.acks.waiting.clear()
        if closed:
            self.env.observer.connection_closed(self, reason, opened, detail)
        self.output.transport.close()
        self.env.after_turn(self._part)

    def retire(self) -> None:
        """Another port has the transport now: end this protocol machine without an answer and without an event."""
        if not self.closed:
            self.change(Event.CLOSE)
            self.flow.held = None
            self.timers.cancel_all()
            self.services.closed(self)
            self.env.after_turn(self._part)

    def _part(self) -> None:
        """The turn in which the connection has ended is over: let memory go (`ended.py`)."""
        self.output.owner = self.flow.owner = self.acks.owner = ENDED

    def lost(self, reason: str) -> None:
        """The transport is closed. Received packets that wait, but not for long, are still handled."""
        self.env.tick()
        self._lost_for = reason
        self._end_if_lost()


def _decoder(options: Options) -> Decoder:
    """Return a decoder that accepts no packet larger than a CONNECT until the client is accepted."""
    size, limit = options.max_connect_bytes, options.max_message_size or MAX_VARINT
    limit = min(size + WILL_BYTES, limit) if size else limit
    return Decoder("server", 0, limit, 0, size, options.max_filters_per_packet)


def _by_policy(told: Callable[[str], None], _: str) -> None:
    told("policy")

"""PUBLISH, PUBREC, PUBREL and PUBCOMP from clients: everything of them that is not on the fast path of
`ClientConnection`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...mqtt import packets
from ...mqtt.encoder import PACKET_IDS
from ...mqtt.errors import ProtocolError
from ...mqtt.reasons import ReasonCode
from ...mqtt.topics import too_deep
from ...netsplit.policy import ViewState
from ..plugins.hooks import Refuse, Verdict
from ..queues.message import Message
from ..queues.records import InboundRecord
from ..routing.router import DONE, WAIT
from .ack_queue import PUBLISH
from .refusal import publish_refused, refuse_publish

RETAINED_UNIT_BYTES = 512
"""A retained message counts as one more packet of the connection's turn for each of these: it is written, and in a
cluster sent to all nodes, where others wait behind it."""

if TYPE_CHECKING:
    from ..sessions.session import Session
    from .connection import ClientConnection

FORWARDED = (
    "payload_format_indicator",
    "content_type",
    "response_topic",
    "correlation_data",
    "user_property",
)
"""Properties that go to subscribers unchanged [MQTT5-3.3.2-4] [MQTT5-3.3.2-15] [MQTT5-3.3.2-16] [MQTT5-3.3.2-17]."""

_PERMITTED_LIMIT = 10_000
_PUBREC = b"\x50\x02"
_PUBCOMP = b"\x70\x02"


def publish(front: ClientConnection, packet: packets.Publish) -> None:
    """A PUBLISH with properties, or on a topic that this client was not yet allowed to use."""
    properties = packet.properties
    if properties is not None and "topic_alias" in properties:
        topic = _resolve_alias(front, packet.topic, properties["topic_alias"])
        if topic is None:
            return
        packet.topic = topic
    topic = packet.topic
    if packet.qos == 2 and front.session is not None and packet.packet_id in front.session.inbound:
        _repeated(front, front.session, packet)
        return
    epoch = front.node.hooks.epoch
    known = front.permitted.get(topic)
    if known in (epoch, ~epoch):
        if known == ~epoch and not _hears_all(front):
            front.permitted[topic] = epoch
        _accept_packet(front, packet, {})
        return
    depth = front.node.options.topic_max_depth
    if too_deep(topic, depth) and (packet.qos == 0 or front.version != 5):
        # nothing that could be answered says no; an acknowledgement would say that the message is taken
        detail = f"PUBLISH to a topic with more than {depth} levels (topic_max_depth)"
        front.wire_error(ProtocolError(detail, ReasonCode.TOPIC_NAME_INVALID))
        return
    if topic.startswith("$") or too_deep(topic, depth):
        # clients do not publish to the broker's own topics (section 4.7.2)
        front.node.counters.publish_error[front.version == 5] += 1
        refuse_publish(front, packet.qos, packet.packet_id, ReasonCode.TOPIC_NAME_INVALID)
        return
    front.decide(_ask(front, packet), lambda verdict: _authorised(front, packet, verdict, epoch))


def _repeated(front: ClientConnection, session: Session, packet: packets.Publish) -> None:
    """A packet id in use is never a first acceptance: no policy and no hook refuses it (H-13). If the message is yet to
    be given to somebody, here or elsewhere, it is what a plugin makes of it, as it was the first time."""
    if session.inbound[packet.packet_id].routed and packet.packet_id not in session.forward_again:
        _accept_packet(front, packet, {})
        return

    def told(verdict: Verdict) -> None:
        _accept_packet(front, packet, {} if isinstance(verdict, Refuse) else dict(verdict.modifiers))

    front.decide(_ask(front, packet), told)


def _resolve_alias(front: ClientConnection, topic: str, alias: int) -> str | None:
    """The topic behind an alias, or None after the connection was closed for a wrong one."""
    if alias > front.topic_alias_max:
        front.disconnect(ReasonCode.TOPIC_ALIAS_INVALID, f"topic alias {alias} is above the maximum")
        return None
    if topic:
        front.aliases_in[alias] = topic
        return topic
    known = front.aliases_in.get(alias)
    if known is None:
        front.disconnect(ReasonCode.PROTOCOL_ERROR, f"topic alias {alias} was never given a topic")
    return known


def _ask(front: ClientConnection, packet: packets.Publish) -> Any:
    arguments = [front.username, front.subscriber, packet.qos, packet.topic, packet.payload, packet.retain]
    chain = front.origin.listener.authz_plugins or None
    if front.version == 5:
        return front.node.hooks.ask("auth_on_publish_m5", *arguments, packet.properties or {}, chain=chain)
    return front.node.hooks.ask("auth_on_publish", *arguments, chain=chain)


def _authorised(front: ClientConnection, packet: packets.Publish, verdict: Verdict, epoch: int) -> None:
    if isinstance(verdict, Refuse):
        publish_refused(front, packet, verdict)
        return
    modifiers = dict(verdict.modifiers)
    if verdict.cacheable and not modifiers:
        if len(front.permitted) >= _PERMITTED_LIMIT:
            front.permitted.clear()
        # where every PUBLISH has to come by here, permission is kept in a form that the fast path does not know
        front.permitted[packet.topic] = ~epoch if _hears_all(front) else epoch
    _accept_packet(front, packet, modifiers)
    if "throttle" in modifiers and not front.closed:
        front.throttle(int(modifiers["throttle"]))


def _accept_packet(front: ClientConnection, packet: packets.Publish, modifiers: dict[str, Any]) -> None:
    properties = modifiers.get("properties", packet.properties)
    expires_at = 0
    if properties:
        interval = properties.get("message_expiry_interval")
        if interval is not None:
            expires_at = front.node.now + interval * 1000
        properties = {name: properties[name] for name in FORWARDED if name in properties} or None
    plans, mountpoint = front.plans, front.mountpoint
    if "mountpoint" in modifiers:
        front.mountpoint = modifiers["mountpoint"]
        front.plans = front.node.router.plans(front.mountpoint)
    retain = modifiers.get("retain", packet.retain)
    arguments = (
        modifiers.get("topic", packet.topic),
        modifiers.get("payload", packet.payload),
        packet.qos,
        retain,
        properties,
        expires_at,
        packet.packet_id,
        modifiers.get("qos"),
    )
    if packet.dup and (retain or front.node.wary):
        accept(front, *arguments, dup=True)
    else:
        front.accept(*arguments)
    front.plans, front.mountpoint = plans, mountpoint
    if _heard(front):
        _notify(front, packet)


def _heard(front: ClientConnection) -> bool:
    return front.node.hooks.has("on_publish_m5" if front.version == 5 else "on_publish")


def _hears_all(front: ClientConnection) -> bool:
    """A plugin hears of every publish; or DUP counts, because the node does not take every PUBLISH now.

    A client sets DUP after a reconnect [MQTT-4.4.0-1] [MQTT5-4.4.0-1]: what it was permitted before does not matter.
    """
    return front.node.wary or _heard(front)


def _notify(front: ClientConnection, packet: packets.Publish) -> None:
    arguments = (front.username, front.subscriber, packet.qos, packet.topic, packet.payload, packet.retain)
    if front.version == 5:
        front.node.hooks.notify("on_publish_m5", *arguments, packet.properties or {})
    else:
        front.node.hooks.notify("on_publish", *arguments)


def accept(
    front: ClientConnection,
    topic: str,
    payload: bytes,
    qos: int,
    retain: bool,
    properties: dict[str, Any] | None,
    expires_at: int,
    packet_id: int,
    routed_qos: int | None = None,
    dup: bool = False,
) -> None:
    """A PUBLISH that cannot take the fast path: QoS 2, retained, a full window, a node that does not take everything.

    With `dup` it may have been accepted before: no policy refuses it. On a side with a lease it is taken, without one,
    or behind others that are parked, it is parked (H-13).
    """
    node = front.node
    session = front.session
    assert session is not None
    if retain:
        front.worked(len(payload) // RETAINED_UNIT_BYTES)
        node.leased()  # without a lease it would replace what others have said since, were it acknowledged or not
    arguments = (topic, payload, qos, retain, properties, expires_at, packet_id, routed_qos)
    record = session.inbound.get(packet_id) if qos == 2 else None
    if record is None:
        if qos and front.unacked >= front.receive_maximum:
            front.disconnect(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, "more unacknowledged PUBLISH packets than allowed")
            return
        again = dup and not front.parked and node.view_state is ViewState.MAJORITY
        if not again and not node.allows("publish", front):
            _not_now(front, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, arguments, dup)
            return
        if qos and not node.store.accepting:
            _not_now(front, ReasonCode.QUOTA_EXCEEDED, arguments, dup)
            return
        if qos and front.parked:
            # the flag was changed while the split went on: what came first is first
            _unpark(front)
            if front.closed:
                return
    if qos < 2:
        if qos:
            node.publishing()
        front.accept(*arguments, checked=True)
        return
    if packet_id not in front.unreleased:
        # one that is repeated on a new connection counts there, too (MQTT 5.0 section 4.9)
        front.unreleased.add(packet_id)
        front.unacked += 1
    fresh = record is None
    if record is None:
        record = InboundRecord(node.numbers.boot, node.numbers.next(), False)
    message = Message(
        front.mountpoint,
        topic,
        payload,
        qos if routed_qos is None else routed_qos,
        retain,
        properties,
        expires_at,
        front.client_id,
        node.origins.get(node.name, record.boot),
        record.counter,
    )
    # packet id -> mid, and which members of groups get it, is safe before the first copy leaves (H-12)
    wait = False
    if fresh:
        record.elsewhere = node.router.draw(message, front.plans)[1]
        wait = session.open_inbound(packet_id, record)
    front.reply(lambda: _route_qos2(front, message, packet_id), wait)


def _route_qos2(front: ClientConnection, message: Message, packet_id: int) -> None:
    node = front.node
    session = front.session
    if session is None:
        return
    if front.begun:
        front.begun.append(lambda: _route_qos2(front, message, packet_id))  # others wait for the lease before it
        return
    record = session.inbound.get(packet_id)
    again = packet_id in session.forward_again
    if record is not None and record.routed and not again:
        # at most once: the repeated PUBLISH is only answered [MQTT-4.3.3-2] [MQTT5-4.3.3-10]
        owed = session.owed.get(packet_id)
        if owed is not None:
            owed.again()
        front.reply(_PUBREC + PACKET_IDS[packet_id], False, owed=owed, operation=PUBLISH)
        return
    if message.retain:
        node.leased()  # as in `accept`
    if node.view_state is ViewState.MINORITY and not node.allows("publish", front):
        # no policy refuses it, but without a lease nobody knows to whom it has to go (H-04, H-13)
        if not front.begun:
            front.when_accepting(_route_begun)
        front.begun.append(lambda: _route_qos2(front, message, packet_id))
        return
    plans = node.router.plans(message.mountpoint)
    plan, here = None, False
    if record is not None:
        if again:
            elsewhere, here = node.router.draw_those_again(message, plans, record.elsewhere)
        else:
            plan, elsewhere = node.router.draw(message, plans, record.elsewhere)
        if elsewhere != record.elsewhere:
            if session.drawn_inbound(packet_id, record, elsewhere) or here:
                front.wait_again(lambda: _route_qos2(front, message, packet_id))
            else:
                _route_qos2(front, message, packet_id)
            return
    if node.events.messages:
        node.message_received(front, message, packet_id)
    node.publishing()
    if again:
        # its copies here are safe since before the restart; whether the other nodes have theirs nobody knows
        session.forward_again.discard(packet_id)
        node.router.forward_again(message, plans, record.elsewhere if record is not None else [])
        routed = DONE
    else:
        routed = (node.route_retained if message.retain else node.router.route)(message, plans, plan)
    elsewhere = [(each.group, each.filter, each.node) for each in node.router.chosen]
    session.routed_inbound(packet_id, elsewhere, node.owed)
    if routed or front.version != 5:
        frame = _PUBREC + PACKET_IDS[packet_id]
    else:
        frame = b"\x50\x03" + PACKET_IDS[packet_id] + b"\x10"
    node.counters.pubrec_sent += 1
    item = node.message_acked(front, message, frame) if node.events.messages else frame
    front.promise(item, routed == WAIT or session.durable)


def _route_begun(front: ClientConnection) -> None:
    """Go on with the handshakes that waited for a lease, in their order; what was parked meanwhile comes behind."""
    begun, front.begun = front.begun, []
    front.go_on(begun)


def _not_now(front: ClientConnection, reason: ReasonCode, arguments: tuple[Any, ...], dup: bool) -> None:
    """The disk is full or the split policy says no: QoS 0 is dropped, v5 is told, v3 is parked (H-13, H-20).

    A v5 client is not told so of a message that somebody may have got already: its DUP is parked, too.
    """
    node = front.node
    topic, qos, packet_id = arguments[0], arguments[2], arguments[6]
    why = "netsplit" if reason == ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR else f"store_{node.store.state}"
    node.denied(front, "publish", topic, why)
    if qos == 0 or (front.version == 5 and not dup):
        node.counters.publish_error[front.version == 5] += 1
        if reason == ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR and qos == 2:
            reason = ReasonCode.UNSPECIFIED_ERROR
        refuse_publish(front, qos, packet_id, reason)
        return
    if not front.parked:
        front.when_accepting(_unpark)
    front.parked.append((front.mountpoint, front.plans, arguments))
    node.counters.publish_parked += 1
    if len(front.parked) >= node.options.max_parked_publishes:
        front.hold("parked")


def _unpark(front: ClientConnection) -> None:
    """Accept what was parked, in order, then whatever came behind it; or go on waiting, if it is not yet time."""
    node = front.node
    if front.closed:
        return
    if not node.store.accepting or not node.allows("publish", front):
        front.when_accepting(_unpark)
        return
    _route_begun(front)
    parked, front.parked = front.parked, []
    own = front.mountpoint, front.plans
    for mountpoint, plans, arguments in parked:
        if front.closed:
            return
        front.mountpoint, front.plans = mountpoint, plans
        node.counters.publish_unparked += 1
        front.accept(*arguments)
    front.mountpoint, front.plans = own
    if not front.parked:
        front.release("parked")


def pubrec(front: ClientConnection, packet: packets.Pubrec) -> None:
    """PUBREC: the subscriber has the QoS 2 message, or refuses it [MQTT-4.3.3-1] [MQTT5-4.3.3-4]."""
    session = front.session
    assert session is not None
    counters = front.node.counters
    counters.pubrec_received += 1
    if front.node.events.messages:
        front.node.message_answered(session, packet.packet_id)
    if packet.reason >= 0x80:
        if not session.queue.ack(packet.packet_id, 2):
            counters.pubrec_invalid += 1
            not_expected(front, session, packet)
        return
    if not session.queue.received(packet.packet_id):
        counters.pubrec_invalid += 1
        if not_expected(front, session, packet):
            return
        answer = packets.Pubrel(packet.packet_id, _not_found(front))
        front.reply(lambda: front.send_packet(answer), False)


def pubrel(front: ClientConnection, packet: packets.Pubrel) -> None:
    """PUBREL: the publisher frees the packet id; forgetting it is safe before PUBCOMP [MQTT-4.3.3-2]."""
    session = front.session
    assert session is not None
    front.node.counters.pubrel_received += 1
    front.node.counters.pubcomp_sent += 1
    if packet.packet_id in session.inbound:
        wait = session.close_inbound(packet.packet_id)
        if packet.packet_id in front.unreleased:
            front.unreleased.discard(packet.packet_id)
            front.unacked -= 1
        front.reply(_PUBCOMP + PACKET_IDS[packet.packet_id], wait)
    else:
        answer = packets.Pubcomp(packet.packet_id, _not_found(front))
        front.reply(lambda: front.send_packet(answer), False)


def _not_found(front: ClientConnection) -> int:
    return ReasonCode.PACKET_IDENTIFIER_NOT_FOUND if front.version == 5 else 0


def pubcomp(front: ClientConnection, packet: packets.Pubcomp) -> None:
    """PUBCOMP: the QoS 2 delivery is finished."""
    session = front.session
    assert session is not None
    front.node.counters.pubcomp_received += 1
    if not session.queue.completed(packet.packet_id):
        front.node.counters.pubcomp_invalid += 1
        not_expected(front, session, packet)


def not_expected(
    front: ClientConnection, session: Session, packet: packets.Puback | packets.Pubrec | packets.Pubcomp
) -> bool:
    """Close the connection if its client answers a message in flight with a packet that is not the next step.

    PUBACK answers QoS 1; PUBREC, then PUBCOMP answer QoS 2 (MQTT 5.0 section 4.3). Left alone, the message would stay
    in flight for ever and take up the window. An id that is not in flight does no harm.
    """
    if packet.packet_id not in session.queue.inflight:
        return False
    name = type(packet).__name__.upper()
    front.wire_error(ProtocolError(f"{name} is not the next answer to the message with packet id {packet.packet_id}"))
    return True

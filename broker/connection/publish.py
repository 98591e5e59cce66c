"""PUBLISH, PUBACK, PUBREC, PUBREL and PUBCOMP from clients: all that is not on the fast path of `ClientConnection`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...mqtt import packets
from ...mqtt.encoder import PACKET_IDS
from ...mqtt.errors import ProtocolError
from ...mqtt.reasons import ReasonCode
from ...mqtt.topics import too_deep
from ...netsplit.policy import ViewState
from ..operation_policy import COPIES, NETSPLIT
from ..plugins.hooks import BROKEN, Refuse, Verdict
from ..queues.message import Message, Origin
from ..queues.records import InboundRecord
from ..routing.ack_context import AckContext
from ..routing.plans import PlanCache
from ..routing.router import AFTER_COMMIT
from ..sessions.session import Session
from .ack_queue import PUBLISH, Item
from .connection import ClientConnection
from .publish_state import PublishRequest, digest_of
from .refusal import publish_refused, refuse_publish

RETAINED_UNIT_BYTES = 512
"""A retained message counts as one more packet of the connection's turn for each unit of this size. It is written, and
in a cluster sent to all nodes, where other messages wait for it."""

FORWARDED = ("payload_format_indicator", "content_type", "response_topic", "correlation_data", "user_property")
"""Properties that go to subscribers unchanged [MQTT5-3.3.2-4] [MQTT5-3.3.2-15] [MQTT5-3.3.2-16] [MQTT5-3.3.2-17]."""

_PUBREC = b"\x50\x02"
_PUBCOMP = b"\x70\x02"


def publish(connection: ClientConnection, packet: packets.Publish) -> None:
    """Handle a PUBLISH with properties, or to a topic for which this client has no cached permission."""
    properties = packet.properties
    if properties is not None and "topic_alias" in properties:
        topic = _resolve_alias(connection, packet.topic, properties["topic_alias"])
        if topic is None:
            return
        packet.topic = topic
    topic = packet.topic
    session = connection.session
    if (
        packet.qos == 2
        and session is not None
        and packet.packet_id in session.inbound.records
        and not session.inbound.begins_anew(packet.packet_id, not packet.dup, digest_of(packet))
    ):
        _repeated(connection, session, packet)
        return
    epoch = connection.env.hooks.epoch
    known = connection.publishing.permitted.get(topic)
    if known in (epoch, ~epoch):
        if known == ~epoch and not _hears_all(connection):
            connection.publishing.permitted[topic] = epoch
        _accept_packet(connection, packet, {})
        return
    depth = connection.env.options.topic_max_depth
    if too_deep(topic, depth) and (packet.qos == 0 or connection.version != 5):
        # no packet can refuse this PUBLISH; an acknowledgement would mean that the message is accepted
        detail = f"PUBLISH to a topic with more than {depth} levels (topic_max_depth)"
        connection.wire_error(ProtocolError(detail, ReasonCode.TOPIC_NAME_INVALID))
        return
    if topic.startswith("$") or too_deep(topic, depth):
        # clients do not publish to the broker's own topics (section 4.7.2)
        connection.env.counters.publish_error[connection.version == 5] += 1
        refuse_publish(connection, packet.qos, packet.packet_id, ReasonCode.TOPIC_NAME_INVALID)
        return
    connection.flow.decide(_ask(connection, packet), lambda verdict: _authorised(connection, packet, verdict, epoch))


def _repeated(connection: ClientConnection, session: Session, packet: packets.Publish) -> None:
    """Handle a PUBLISH whose packet id is in use: it was accepted before, so no policy and no hook refuses it (H-13).

    If the message still has to be routed, here or to other nodes, plugins may change it again as they did at first. If
    one of them fails, the client sends the message once more.
    """
    if session.inbound.only_answered(packet.packet_id):
        _accept_packet(connection, packet, {})
        return

    def told(verdict: Verdict) -> None:
        if verdict is BROKEN:  # it may have changed the message at first: nobody may get it unchanged
            connection.disconnect(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, "a plugin failed: send again")
            return
        _accept_packet(connection, packet, {} if isinstance(verdict, Refuse) else dict(verdict.modifiers))

    connection.flow.decide(_ask(connection, packet), told)


def _resolve_alias(connection: ClientConnection, topic: str, alias: int) -> str | None:
    """Return the topic of an alias; None if the alias is invalid, and the connection was closed for that."""
    if alias > connection.publishing.alias_maximum:
        connection.disconnect(ReasonCode.TOPIC_ALIAS_INVALID, f"topic alias {alias} is above the maximum")
        return None
    if topic:
        connection.publishing.aliases[alias] = topic
        return topic
    known = connection.publishing.aliases.get(alias)
    if known is None:
        connection.disconnect(ReasonCode.PROTOCOL_ERROR, f"topic alias {alias} was never given a topic")
    return known


def _ask(connection: ClientConnection, packet: packets.Publish) -> Any:
    arguments = [connection.username, connection.subscriber, packet.qos, packet.topic, packet.payload, packet.retain]
    chain = connection.origin.listener.authz_plugins or None
    if connection.version == 5:
        return connection.env.hooks.ask("auth_on_publish_m5", *arguments, packet.properties or {}, chain=chain)
    return connection.env.hooks.ask("auth_on_publish", *arguments, chain=chain)


def _authorised(connection: ClientConnection, packet: packets.Publish, verdict: Verdict, epoch: int) -> None:
    if isinstance(verdict, Refuse):
        publish_refused(connection, packet, verdict)
        return
    modifiers = dict(verdict.modifiers)
    if verdict.cacheable and not modifiers:
        # if every PUBLISH must be handled here, remember the permission in a form that the fast path ignores
        connection.publishing.permit(packet.topic, ~epoch if _hears_all(connection) else epoch)
    _accept_packet(connection, packet, modifiers)
    if "throttle" in modifiers and not connection.closed:
        connection.flow.throttle(int(modifiers["throttle"]))


def _accept_packet(connection: ClientConnection, packet: packets.Publish, modifiers: dict[str, Any]) -> None:
    properties = modifiers.get("properties", packet.properties)
    expires_at = 0
    if properties:
        interval = properties.get("message_expiry_interval")
        if interval is not None:
            expires_at = connection.env.now + interval * 1000
        properties = {name: properties[name] for name in FORWARDED if name in properties} or None
    state = connection.publishing
    plans, mountpoint = state.plans, connection.mountpoint
    if "mountpoint" in modifiers:
        connection.mountpoint = modifiers["mountpoint"]
        state.plans = connection.services.router.plans(connection.mountpoint)
    routed_qos = modifiers.get("qos")
    request = PublishRequest(
        modifiers.get("topic", packet.topic),
        modifiers.get("payload", packet.payload),
        packet.qos,
        modifiers.get("retain", packet.retain),
        properties,
        expires_at,
        packet.packet_id,
        packet.qos if routed_qos is None else routed_qos,
    )
    request.dup = packet.dup and (request.retain or connection.services.policy.restricted)
    request.first = not packet.dup
    if packet.qos == 2:
        request.digest = digest_of(packet)
    connection.handlers.accept(connection, request)
    state.plans, connection.mountpoint = plans, mountpoint


def _heard(connection: ClientConnection) -> bool:
    return connection.env.hooks.has("on_publish_m5" if connection.version == 5 else "on_publish")


def _hears_all(connection: ClientConnection) -> bool:
    """True if `publish` must handle every PUBLISH: a plugin wants to see it, or the node is restricted, so DUP matters.

    Clients set DUP only after a reconnect [MQTT-4.4.0-1] [MQTT5-4.4.0-1], so permissions cached before do no harm.
    """
    return connection.services.policy.restricted or _heard(connection)


def _notify(connection: ClientConnection, request: PublishRequest) -> None:
    """Tell plugins of a PUBLISH that is accepted, as `auth_on_publish` has changed it."""
    env = connection.env
    topic, payload, qos, retain = request.topic, request.payload, request.routed_qos, request.retain
    arguments = (connection.username, connection.subscriber, qos, topic, payload, retain)
    if connection.version != 5:
        env.hooks.notify("on_publish", *arguments)
        return
    properties = dict(request.properties or {})
    if request.expires_at:
        properties["message_expiry_interval"] = max(0, -((env.now - request.expires_at) // 1000))
    env.hooks.notify("on_publish_m5", *arguments, properties)


def accept(connection: ClientConnection, request: PublishRequest) -> None:
    """Accept a PUBLISH that plugins allow, unless a limit, the disk or the split policy forbids it.

    A PUBLISH with `request.dup` may have been accepted before, so no policy refuses it. A node with a lease accepts it.
    Without a lease, or while other packets are deferred, it is deferred (H-13).
    """
    services, qos = connection.services, request.qos
    session = connection.session
    assert session is not None
    if request.retain:
        connection.flow.worked(len(request.payload) // RETAINED_UNIT_BYTES)
        # update the view state: without a lease the message could replace a later one, even if it is not acknowledged
        connection.env.cluster.has_lease()
    record = session.inbound.records.get(request.packet_id) if qos == 2 else None
    if record is not None and session.inbound.begins_anew(request.packet_id, request.first, request.digest):
        record = None
    exceeds = qos and connection.acks.unacked >= connection.publishing.receive_maximum
    checked = services.policy.restricted or request.retain or exceeds or qos == 2
    if record is None and checked:
        if exceeds:
            detail = "more unacknowledged PUBLISH packets than allowed"
            connection.disconnect(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, detail)
            return
        if not _may_accept(connection, request):
            return
    if qos < 2:
        if qos and checked:
            connection.env.cluster.publishing()
        _route(connection, request)
    else:
        _begin_qos2(connection, session, request, record)
    if record is None and _heard(connection):
        _notify(connection, request)


def _may_accept(connection: ClientConnection, request: PublishRequest) -> bool:
    """True if the PUBLISH may be accepted now; False if it was refused or deferred, or the connection was closed."""
    policy, qos, state = connection.services.policy, request.qos, connection.publishing
    plans = state.plans
    assert plans is not None
    if policy.due:
        _defer(connection, request)  # behind what goes on at the end of this turn
        return False
    again = request.dup and not state.deferred and policy.view_state is not ViewState.MINORITY
    if not again and not policy.allows("publish", connection.modifiers):
        _not_now(connection, NETSPLIT, request)
        return False
    if qos and not connection.env.store.accepting:
        _not_now(connection, f"store_{connection.env.store.state}", request)
        return False
    if not again and _lacks_copies(connection, plans, request):
        _not_now(connection, COPIES, request)
        return False
    if qos and state.deferred:
        # the slots of those packets have changed: accept the deferred packets before this one
        if not _first_lacks_copies(connection):
            _take_deferred(connection)
        if state.deferred:
            _not_now(connection, COPIES, request)  # behind those that still wait
            return False
    return not connection.closed


def _lacks_copies(connection: ClientConnection, plans: PlanCache, request: PublishRequest) -> bool:
    """True if a slot that has to keep the message, or the packet id of the publisher, has too few copies."""
    few, session = connection.services.policy.few_copies, connection.session
    if not few or not request.qos or session is None:
        return False
    packet_id_kept = request.qos == 2 and session.durable
    return (packet_id_kept and session.key[0] in few) or plans.of(request.topic).reaches(few)


def _first_lacks_copies(connection: ClientConnection) -> bool:
    _, plans, request = connection.publishing.deferred[0]
    return _lacks_copies(connection, plans, request)


def _route(connection: ClientConnection, request: PublishRequest) -> None:
    env, services, plans = connection.env, connection.services, connection.publishing.plans
    assert plans is not None
    counter = env.numbers.next(env.has_rows(connection.client_id, request.topic))
    message = _message(connection, request, env.origin, counter)
    if env.events.messages:
        env.observer.message_received(connection, message, request.packet_id)
    context = AckContext()
    route = services.publisher.route_retained if message.retain else services.router.route
    routed = route(message, plans, context)
    if request.qos:
        connection.send_puback(request.packet_id, routed, message, context)


def _message(connection: ClientConnection, request: PublishRequest, origin: Origin, counter: int) -> Message:
    return Message(
        mountpoint=connection.mountpoint,
        topic=request.topic,
        payload=request.payload,
        qos=request.routed_qos,
        retain=request.retain,
        properties=request.properties,
        expires_at=request.expires_at,
        publisher=connection.client_id,
        origin=origin,
        counter=counter,
    )


def _begin_qos2(
    connection: ClientConnection, session: Session, request: PublishRequest, record: InboundRecord | None
) -> None:
    state, packet_id = connection.publishing, request.packet_id
    plans = state.plans
    assert plans is not None
    if packet_id not in state.packet_ids:
        # a PUBLISH that is repeated on a new connection counts there as well (MQTT 5.0 section 4.9)
        state.packet_ids.add(packet_id)
        connection.acks.unacked += 1
    fresh = record is None
    if record is None:
        record = _new_record(session, request)
    message = _message(connection, request, _origin(session, record), record.counter)
    # packet id -> mid, and which members of groups get it, is safe before the first copy leaves (H-12)
    wait = False
    if fresh:
        record.elsewhere = connection.services.router.select(message, plans)[1]
        wait = session.inbound.open(packet_id, record)
    connection.acks.route(lambda: _route_qos2(connection, message, packet_id), wait)


def _new_record(session: Session, request: PublishRequest) -> InboundRecord:
    env = session.env
    has_rows = env.has_rows(session.client_id, request.topic)
    mid = env.cluster.mid_of_slot(session.key[0], has_rows) if session.durable else None
    if mid is None:
        return InboundRecord(env.numbers.boot, env.numbers.next(has_rows), False, digest=request.digest)
    origin, epoch, counter = mid
    return InboundRecord(epoch, counter, False, origin=origin, digest=request.digest)


def _origin(session: Session, record: InboundRecord) -> Origin:
    own = session.env.origin
    if not record.origin and record.boot == own.boot:
        return own
    return session.env.origins.get(record.origin or own.node, record.boot)


def _route_qos2(connection: ClientConnection, message: Message, packet_id: int) -> None:
    env, services = connection.env, connection.services
    session = connection.session
    if session is None:
        return
    if connection.publishing.waiting_for_lease:
        _wait_for_lease(connection, message, packet_id)  # after others that wait for it
        return
    inbound = session.inbound
    record = inbound.records.get(packet_id)
    inherited = packet_id in inbound.inherited
    again = packet_id in inbound.forward_again and not inherited
    if record is not None and inbound.only_answered(packet_id):
        # at most once: a repeated PUBLISH only gets an answer [MQTT-4.3.3-2] [MQTT5-4.3.3-10]
        pending = inbound.pending_acks.get(packet_id)
        if pending is not None:
            pending.retry()
        frame = _PUBREC + PACKET_IDS[packet_id]
        answer: Item = frame
        if env.events.messages:
            answer = connection.acknowledge(message, packet_id, 2, frame, packet_id in inbound.by_policy)
        connection.acks.reply(answer, False, pending=pending, operation=PUBLISH)
        return
    if message.retain:
        env.cluster.has_lease()  # as `accept`: this updates the view state
    if services.policy.view_state is ViewState.MINORITY and not services.policy.allows("publish", connection.modifiers):
        # no policy refuses it, but without a lease this node does not know all subscribers (H-04, H-13)
        _wait_for_lease(connection, message, packet_id)
        return
    plans = services.router.plans(message.mountpoint)
    plan, here = None, False
    services.router.slots_of_members = {}
    if record is not None:
        if again:
            elsewhere, here = services.router.select_those_again(message, plans, record.elsewhere)
        else:
            plan, elsewhere = services.router.select(message, plans, record.elsewhere)
        if elsewhere != record.elsewhere:
            if inbound.reselected(packet_id, record, elsewhere, services.router.slots_of_members) or here:
                connection.acks.requeue(lambda: _route_qos2(connection, message, packet_id))
            else:
                _route_qos2(connection, message, packet_id)
            return
    if env.events.messages:
        env.observer.message_received(connection, message, packet_id)
    env.cluster.publishing()
    context = AckContext()
    retain = message.retain and (record is None or not record.kept)
    if inherited:
        # any session may have it from an earlier process, or lack it
        inbound.inherited.discard(packet_id)
        inbound.forward_again.discard(packet_id)
        routed = services.publisher.route_inherited(message, plans, context, plan, retain)
    elif again:
        # the copies on this node are safe from before; other nodes may lack theirs
        assert record is not None
        inbound.forward_again.discard(packet_id)
        routed = services.publisher.forward_again(message, plans, record, context, retain)
    else:
        route = services.publisher.route_retained if message.retain else services.router.route
        routed = route(message, plans, context, plan)
    elsewhere = [(each.group, each.filter, each.node) for each in services.router.remote_members]
    known = plans.of(message.topic)
    if record is not None and record.origin and not again and not inherited:
        env.cluster.take_own(message, known.slots_here)
        if known.has_clean_here:
            env.cluster.take_own_live(message)
        services.router.members_have(message)
    slots = known.slots_elsewhere if known.remote else ()
    inbound.routed(packet_id, elsewhere, context.pending, slots, services.router.slots_of_members)
    note = inbound.by_policy.add if connection.accepts_by_policy("publish") else inbound.by_policy.discard
    note(packet_id)
    code = b"" if routed or connection.version != 5 else b"\x10"
    frame = bytes((0x50, 2 + len(code))) + PACKET_IDS[packet_id] + code
    env.counters.pubrec_sent += 1
    item: Item = connection.acknowledge(message, packet_id, 2, frame) if env.events.messages else frame
    if message.retain and packet_id not in inbound.by_policy:
        item = inbound.keeping(packet_id, item if callable(item) else partial(connection.output.write, item))
    connection.acks.accept(item, routed == AFTER_COMMIT or session.durable, context)


def _wait_for_lease(connection: ClientConnection, message: Message, packet_id: int) -> None:
    waiting = connection.publishing.waiting_for_lease
    if not waiting:
        connection.when_accepting(_route_waiting)
    waiting.append(lambda: _route_qos2(connection, message, packet_id))


def _route_waiting(connection: ClientConnection) -> None:
    """Continue the handshakes that waited for a lease, in order; packets that were deferred since then follow."""
    state = connection.publishing
    waiting, state.waiting_for_lease = state.waiting_for_lease, []
    connection.acks.requeue_all(waiting)


def _not_now(connection: ClientConnection, why: str, request: PublishRequest) -> None:
    """The disk is full, or a policy (`why`) forbids the PUBLISH: drop QoS 0, answer v5, defer v3 (H-13, H-20).

    A PUBLISH of a v5 client with DUP is deferred as well: an error would be wrong if a subscriber has the message.
    """
    env, qos = connection.env, request.qos
    connection.services.policy.deny(connection, "publish", request.topic, why)
    if qos == 0 or (connection.version == 5 and not request.dup):
        env.counters.publish_error[connection.version == 5] += 1
        reason = ReasonCode.QUOTA_EXCEEDED
        if why in (NETSPLIT, COPIES):
            reason = ReasonCode.UNSPECIFIED_ERROR if qos == 2 else ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
        refuse_publish(connection, qos, request.packet_id, reason)
        return
    _defer(connection, request)


def _defer(connection: ClientConnection, request: PublishRequest) -> None:
    """Accept the PUBLISH later, behind those of this connection that wait already."""
    env, state = connection.env, connection.publishing
    if not state.deferred:
        connection.when_accepting(_take_deferred)
    request.dup = False
    request.deferred_at = env.now
    assert state.plans is not None
    state.deferred.append((connection.mountpoint, state.plans, request))
    env.counters.publish_parked += 1
    if len(state.deferred) >= env.options.max_parked_publishes:
        connection.flow.hold("parked")


def _take_deferred(connection: ClientConnection) -> None:
    """Accept the deferred packets in order, then those after them. Wait again if the node cannot accept them yet.

    Those behind a packet whose slots have too few copies wait as well: no policy reorders messages.
    """
    env, state = connection.env, connection.publishing
    if connection.closed:
        return
    if not env.store.accepting or not connection.services.policy.allows("publish", connection.modifiers):
        connection.when_accepting(_take_deferred)
        return
    _route_waiting(connection)
    deferred, state.deferred = state.deferred, []
    own = connection.mountpoint, state.plans
    for number, (mountpoint, plans, request) in enumerate(deferred):
        if connection.closed:
            return
        again = partial(_take_deferred, connection)
        if connection.flow.waits_for_plan(plans, request.topic, again) or _lacks_copies(connection, plans, request):
            state.deferred += deferred[number:]
            connection.when_accepting(_take_deferred)
            break
        connection.mountpoint, state.plans = mountpoint, plans
        env.counters.publish_unparked += 1
        if request.expires_at:  # if the clock was set meanwhile, that is no time in which the message has waited
            request.expires_at += env.now - request.deferred_at - env.since(request.deferred_at)
        accept(connection, request)
    connection.mountpoint, state.plans = own
    if not state.deferred:
        connection.flow.release("parked")


def puback(connection: ClientConnection, packet: packets.Puback) -> None:
    """PUBACK: the subscriber has the QoS 1 message [MQTT-4.3.2-1]."""
    session, env = connection.session, connection.env
    assert session is not None
    env.counters.puback_received += 1
    if env.events.messages:
        _answered(connection, session, packet)
    if not session.queue.ack(packet.packet_id):
        env.counters.puback_invalid[connection.version == 5] += 1
        not_expected(connection, session, packet)


def _answered(connection: ClientConnection, session: Session, packet: packets.Puback | packets.Pubrec) -> None:
    entry = session.queue.inflight.get(packet.packet_id)
    if entry is not None and entry.message is not None:
        connection.env.observer.message_answered(connection, packet.packet_id, entry.message, packet.reason)


def pubrec(connection: ClientConnection, packet: packets.Pubrec) -> None:
    """PUBREC: the subscriber has the QoS 2 message, or refuses it [MQTT-4.3.3-1] [MQTT5-4.3.3-4]."""
    session = connection.session
    assert session is not None
    counters = connection.env.counters
    counters.pubrec_received += 1
    if connection.env.events.messages:
        _answered(connection, session, packet)
    if packet.reason >= 0x80:
        if not session.queue.ack(packet.packet_id, 2):
            counters.pubrec_invalid[connection.version == 5] += 1
            not_expected(connection, session, packet)
        return
    if not session.queue.received(packet.packet_id):
        counters.pubrec_invalid[connection.version == 5] += 1
        if not_expected(connection, session, packet):
            return
        answer = packets.Pubrel(packet.packet_id, _not_found(connection))
        connection.acks.reply(lambda: connection.output.send_packet(answer), False)


def pubrel(connection: ClientConnection, packet: packets.Pubrel) -> None:
    """PUBREL: forget the publisher's packet id; the deletion is safe before PUBCOMP [MQTT-4.3.3-2]."""
    session = connection.session
    assert session is not None
    connection.env.counters.pubrel_received += 1
    connection.env.counters.pubcomp_sent += 1
    record = session.inbound.records.get(packet.packet_id)
    if record is not None:
        item: bytes | Callable[[], None] = _PUBCOMP + PACKET_IDS[packet.packet_id]
        if connection.env.events.messages:
            item = _log_release(connection, session, packet.packet_id, record)
        wait = session.inbound.close(packet.packet_id)
        if packet.packet_id in connection.publishing.packet_ids:
            connection.publishing.packet_ids.discard(packet.packet_id)
            connection.acks.unacked -= 1
        connection.acks.reply(item, wait)
    else:
        answer = packets.Pubcomp(packet.packet_id, _not_found(connection))
        connection.acks.reply(lambda: connection.output.send_packet(answer), False)


def _log_release(
    connection: ClientConnection, session: Session, packet_id: int, record: InboundRecord
) -> Callable[[], None]:
    """Write the row of a PUBREL. Return a function that sends PUBCOMP, whose row is written once it has left."""
    observer, origin = connection.env.observer, _origin(session, record)
    mid = origin.node, origin.boot, record.counter
    observer.message_released("pub.rel", connection, packet_id, mid)
    return connection.logged(
        _PUBCOMP + PACKET_IDS[packet_id],
        lambda _right: observer.message_released("pub.comp", connection, packet_id, mid),
    )


def _not_found(connection: ClientConnection) -> int:
    return ReasonCode.PACKET_IDENTIFIER_NOT_FOUND if connection.version == 5 else 0


def pubcomp(connection: ClientConnection, packet: packets.Pubcomp) -> None:
    """PUBCOMP: the QoS 2 delivery is finished."""
    session = connection.session
    assert session is not None
    connection.env.counters.pubcomp_received += 1
    entry = session.queue.inflight.get(packet.packet_id)
    if connection.env.events.messages and entry is not None and not entry.left_out:
        connection.env.observer.delivery_released("dlv.comp", connection, packet.packet_id)
    if not session.queue.completed(packet.packet_id):
        connection.env.counters.pubcomp_invalid[connection.version == 5] += 1
        not_expected(connection, session, packet)


def not_expected(
    connection: ClientConnection, session: Session, packet: packets.Puback | packets.Pubrec | packets.Pubcomp
) -> bool:
    """Close the connection if its client answers a message in flight with a packet that is not the next step.

    PUBACK answers QoS 1; PUBREC, then PUBCOMP answer QoS 2 (MQTT 5.0 section 4.3). Otherwise the message would stay in
    flight for ever and block the window. An id that is not in flight is ignored.
    """
    if packet.packet_id not in session.queue.inflight:
        return False
    name = type(packet).__name__.upper()
    connection.wire_error(
        ProtocolError(f"{name} is not the next answer to the message with packet id {packet.packet_id}")
    )
    return True

"""SUBSCRIBE and UNSUBSCRIBE: options, authorisation, retained messages (MQTT 5.0 sections 3.8 to 3.11)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...mqtt import packets
from ...mqtt.reasons import ReasonCode
from ...mqtt.topics import levels, parse_shared, valid_filter
from ..plugins.hooks import Refuse, Verdict
from ..routing.pending_acks import PendingAcks
from ..routing.subscriptions import Subscription
from ..sessions.session import RESTARTED
from .ack_queue import SUBSCRIBE, UNSUBSCRIBE

if TYPE_CHECKING:
    from ..sessions.session import Session
    from .connection import ClientConnection

V3_REFUSED = 0x80

FILTERS_PER_TURN = 50
"""So many filters of a SUBSCRIBE are added in one turn of the loop: in a cluster some 2 ms of CPU."""

FILTERS = "filters"
"""What a connection is held for meanwhile."""


def subscribe(front: ClientConnection, packet: packets.Subscribe) -> None:
    """SUBSCRIBE: one answer per filter, in order [MQTT-3.8.4-5] [MQTT5-3.8.4-6]."""
    front.worked(len(packet.subscriptions))
    node = front.node
    node.counters.subscribe_received[front.version == 5] += 1
    if not node.allows("subscribe", front):
        node.counters.subscribe_error[front.version == 5] += 1
        node.denied(front, "subscribe", "", "netsplit")
        _suback(front, packet, [ReasonCode.NOT_AUTHORIZED] * len(packet.subscriptions), False)
        return
    reasons: list[int | None] = []
    for wanted in packet.subscriptions:
        group, _ = parse_shared(wanted.filter) if valid_filter(wanted.filter) else (None, "")
        if group is not None and wanted.no_local:
            # [MQTT5-3.8.3-4]
            front.disconnect(ReasonCode.PROTOCOL_ERROR, "No Local with a shared subscription")
            return
        reasons.append(_problem(front, wanted.filter))
    if all(reason is not None for reason in reasons):
        _suback(front, packet, [reason or 0 for reason in reasons], False)
        return
    front.decide(_ask(front, packet), lambda verdict: _authorised(front, packet, reasons, verdict))


def _problem(front: ClientConnection, text: str) -> int | None:
    options = front.node.options
    if not valid_filter(text) or (options.topic_max_depth and levels(parse_shared(text)[1]) > options.topic_max_depth):
        return ReasonCode.TOPIC_FILTER_INVALID
    session = front.session
    assert session is not None
    limit = options.max_subscriptions_per_client
    if limit and len(session.subscriptions) >= limit and text not in session.subscriptions:
        return ReasonCode.QUOTA_EXCEEDED
    return None


def _ask(front: ClientConnection, packet: packets.Subscribe) -> Any:
    chain = front.origin.listener.authz_plugins or None
    if front.version == 5:
        topics: list[Any] = [
            (
                w.filter,
                {
                    "qos": w.qos,
                    "no_local": w.no_local,
                    "rap": w.retain_as_published,
                    "retain_handling": w.retain_handling,
                },
            )
            for w in packet.subscriptions
        ]
        hook, extra = "auth_on_subscribe_m5", [packet.properties or {}]
    else:
        topics = [(w.filter, w.qos) for w in packet.subscriptions]
        hook, extra = "auth_on_subscribe", []
    return front.node.hooks.ask(hook, front.username, front.subscriber, topics, *extra, chain=chain)


def _authorised(
    front: ClientConnection, packet: packets.Subscribe, reasons: list[int | None], verdict: Verdict
) -> None:
    node, session = front.node, front.session
    assert session is not None
    if isinstance(verdict, Refuse):
        node.counters.subscribe_auth_error[front.version == 5] += 1
        node.denied(front, "subscribe", packet.subscriptions[0].filter)
        code = verdict.reason_code or ReasonCode.NOT_AUTHORIZED
        _suback(front, packet, [code if reason is None else reason for reason in reasons], False)
        return
    _apply_modifiers(packet, reasons, verdict.modifiers.get("topics"))
    _add(front, session, _Adding(packet, reasons, [], {}))


@dataclass(slots=True)
class _Adding:
    """A SUBSCRIBE whose filters are being added: one of `answers` for each that is done, `fresh` are the new ones.
    Between its turns `owed` is what its answer waits for so far."""

    packet: packets.Subscribe
    reasons: list[int | None]
    answers: list[int]
    fresh: dict[str, None]
    wrote: bool = False
    owed: PendingAcks | None = None


def _add(front: ClientConnection, session: Session, adding: _Adding) -> None:
    """Add the next `FILTERS_PER_TURN` filters. The connection's other packets wait until all are added."""
    node, packet, answers = front.node, adding.packet, adding.answers
    identifier = (packet.properties or {}).get("subscription_identifier", 0)
    for number in range(len(answers), min(len(packet.subscriptions), len(answers) + FILTERS_PER_TURN)):
        wanted, reason = packet.subscriptions[number], adding.reasons[number]
        reason = reason if reason is not None else _problem(front, wanted.filter)
        if reason is not None:
            answers.append(reason)
            continue
        if session.subscribe(wanted.filter, _make(front, session, wanted, identifier)):
            adding.fresh[wanted.filter] = None
        adding.wrote = session.durable
        node.event("sub.add", client=front.client_id, filter=wanted.filter, qos=wanted.qos)
        answers.append(wanted.qos)
    if len(answers) < len(packet.subscriptions):
        adding.owed, node.owed = node.owed, None  # the next packet of another connection must not find it
        front.hold(FILTERS)
        node.after_turn(lambda: _add_more(front, session, adding))
        return
    _added(front, adding)


def _add_more(front: ClientConnection, session: Session, adding: _Adding) -> None:
    front.node.tick()
    if front.closed or front.session is not session:
        return  # there is nobody to answer
    front.node.owed = adding.owed
    _add(front, session, adding)
    if len(adding.answers) == len(adding.packet.subscriptions):
        front.release(FILTERS)


def _added(front: ClientConnection, adding: _Adding) -> None:
    packet, fresh, answers, wrote = adding.packet, adding.fresh, adding.answers, adding.wrote
    _notify(front, "on_subscribe", [(w.filter, w.qos) for w in packet.subscriptions], packet.properties)
    _suback(front, packet, answers, wrote, SUBSCRIBE)
    # retained messages come after SUBACK, and after everything that was routed before it
    front.reply(lambda: _replay(front, list(fresh)), False)


def _apply_modifiers(packet: packets.Subscribe, reasons: list[int | None], topics: Any) -> None:
    """A plugin may change filters and QoS, or refuse single filters (docs/plugins.md)."""
    if topics is None:
        return
    for number, (text, granted) in enumerate(topics):
        wanted = packet.subscriptions[number]
        wanted.filter = text
        if isinstance(granted, dict):
            wanted.no_local = granted.get("no_local", wanted.no_local)
            wanted.retain_as_published = granted.get("rap", wanted.retain_as_published)
            wanted.retain_handling = granted.get("retain_handling", wanted.retain_handling)
            granted = granted.get("qos", wanted.qos)
        if granted == "not_allowed" or granted == V3_REFUSED:
            reasons[number] = ReasonCode.NOT_AUTHORIZED
        elif granted > 2:
            reasons[number] = granted
        else:
            wanted.qos = granted


def _make(front: ClientConnection, session: Session, wanted: packets.SubscribeOptions, identifier: int) -> Subscription:
    group, pattern = parse_shared(wanted.filter)
    return Subscription(
        session,
        pattern,
        group,
        wanted.qos,
        # a bridge (protocol levels 131 and 132) gets RETAIN as it was, and its own messages never back
        wanted.no_local or (front.bridge and group is None),
        wanted.retain_as_published or front.bridge,
        wanted.retain_handling,
        identifier,
    )


def _suback(
    front: ClientConnection, packet: packets.Subscribe, reasons: list[int], wait: bool, operation: int = 0
) -> None:
    if front.version != 5:
        reasons = [V3_REFUSED if reason > 2 else reason for reason in reasons]
    front.node.counters.suback_sent[front.version == 5] += 1
    answer = packets.Suback(packet.packet_id, reasons)
    front.promise(lambda: front.send_packet(answer), wait, operation=operation)


def resumed(front: ClientConnection, session: Session) -> None:
    """Retained messages that the session was to get go on where they were (P4).

    After a restart that came between them and the SUBACK, perhaps, they are sent as if it had left (P7).
    """
    _replay(front, [text for text, state in session.due.items() if state == RESTARTED])


def _replay(front: ClientConnection, filters: list[str]) -> None:
    session = front.session
    if session is None:
        return
    for text in filters:
        session.begin_replay(text)
    if session.queue.replay is not None:
        front.node.replays.now(session.queue.replay)


def unsubscribe(front: ClientConnection, packet: packets.Unsubscribe) -> None:
    """UNSUBSCRIBE: v5 learns for each filter whether it was there [MQTT5-3.11.3-2]."""
    front.worked(len(packet.filters))
    node, session = front.node, front.session
    assert session is not None
    node.counters.unsubscribe_received[front.version == 5] += 1
    if not node.allows("unsubscribe", front):
        node.counters.unsubscribe_error[front.version == 5] += 1
        node.denied(front, "unsubscribe", "", "netsplit")
        if front.version == 5:
            reasons = [int(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)] * len(packet.filters)
            _unsuback(front, packet.packet_id, reasons, False)
        return
    hook, extra = ("on_unsubscribe_m5", [packet.properties or {}]) if front.version == 5 else ("on_unsubscribe", [])
    if not node.hooks.has(hook):
        _remove(front, packet.packet_id, packet.filters)
        return
    question = node.hooks.ask(hook, front.username, front.subscriber, packet.filters, *extra)
    front.decide(question, lambda verdict: _unsubscribe_decided(front, packet, verdict))


def _unsubscribe_decided(front: ClientConnection, packet: packets.Unsubscribe, verdict: Verdict) -> None:
    filters = packet.filters
    if not isinstance(verdict, Refuse):
        filters = verdict.modifiers.get("topics", filters)
    _remove(front, packet.packet_id, list(filters))


def _remove(front: ClientConnection, packet_id: int, filters: list[str]) -> None:
    session = front.session
    assert session is not None
    reasons: list[int] = []
    removed = False
    for text in filters:
        found = session.unsubscribe(text)
        removed = removed or found
        reasons.append(0 if found else ReasonCode.NO_SUBSCRIPTION_EXISTED)
        if found:
            front.node.event("sub.del", client=front.client_id, filter=text)
    _unsuback(front, packet_id, reasons, session.durable and removed, UNSUBSCRIBE)
    if front.node.hooks.has("on_topic_unsubscribed"):
        front.node.hooks.notify("on_topic_unsubscribed", front.subscriber, filters)


def _unsuback(front: ClientConnection, packet_id: int, reasons: list[int], wait: bool, operation: int = 0) -> None:
    front.node.counters.unsuback_sent[front.version == 5] += 1
    answer = packets.Unsuback(packet_id, reasons if front.version == 5 else [])
    front.promise(lambda: front.send_packet(answer), wait, operation=operation)


def _notify(front: ClientConnection, hook: str, topics: list[Any], properties: dict[str, Any] | None) -> None:
    if front.version == 5:
        front.node.hooks.notify(f"{hook}_m5", front.username, front.subscriber, topics, properties or {})
    else:
        front.node.hooks.notify(hook, front.username, front.subscriber, topics)

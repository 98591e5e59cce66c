"""SUBSCRIBE and UNSUBSCRIBE: options, authorisation, retained messages (MQTT 5.0 sections 3.8 to 3.11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from ...mqtt import packets
from ...mqtt.reasons import ReasonCode
from ...mqtt.topics import levels, parse_shared, valid_filter
from ..operation_policy import NO_SLOT
from ..plugins.hooks import Refuse, Verdict
from ..routing.ack_context import AckContext
from ..routing.subscriptions import Subscription
from ..sessions.due_replays import DueReplay
from ..sessions.session import Session
from .ack_queue import SUBSCRIBE, UNSUBSCRIBE
from .connection import LEASE_LOST, ClientConnection
from .flow_control import FILTERS

V3_REFUSED = 0x80
NO_PROPERTIES: Mapping[str, Any] = MappingProxyType({})

FILTERS_PER_TURN = 50
"""How many filters of a SUBSCRIBE are added in one turn of the loop: about 2 ms of CPU in a cluster."""


def subscribe(connection: ClientConnection, packet: packets.Subscribe) -> None:
    """SUBSCRIBE: one answer per filter, in order [MQTT-3.8.4-5] [MQTT5-3.8.4-6]."""
    connection.flow.worked(len(packet.subscriptions))
    env = connection.env
    env.counters.subscribe_received[connection.version == 5] += 1
    if _refused(connection, packet):
        return
    reasons: list[int | None] = []
    for wanted in packet.subscriptions:
        group, _ = parse_shared(wanted.filter) if valid_filter(wanted.filter) else (None, "")
        if group is not None and wanted.no_local:
            # [MQTT5-3.8.3-4]
            connection.disconnect(ReasonCode.PROTOCOL_ERROR, "No Local with a shared subscription")
            return
        reasons.append(_problem(connection, wanted.filter))
    if all(reason is not None for reason in reasons):
        _suback(connection, packet, _answer(connection, packet, [reason or 0 for reason in reasons]), False)
        return
    connection.flow.decide(_ask(connection, packet), lambda verdict: _authorised(connection, packet, reasons, verdict))


def _refused(connection: ClientConnection, packet: packets.Subscribe) -> bool:
    """True if a policy forbids the SUBSCRIBE; then the client has its answer."""
    why = _refusal(connection, "subscribe")
    if why:
        connection.env.counters.subscribe_error[connection.version == 5] += 1
        connection.services.policy.deny(connection, "subscribe", "", why)
        codes: list[int] = [ReasonCode.NOT_AUTHORIZED] * len(packet.subscriptions)
        _suback(connection, packet, _answer(connection, packet, codes), False)
    return bool(why)


def _refusal(connection: ClientConnection, operation: str) -> str:
    """As `OperationPolicy.refusal`, for a change of this connection's session."""
    session = connection.session
    assert session is not None
    slot = session.key[0] if session.durable else NO_SLOT
    return connection.services.policy.refusal(operation, connection.modifiers, slot)


def _problem(connection: ClientConnection, text: str) -> int | None:
    options = connection.env.options
    if not valid_filter(text) or (options.topic_max_depth and levels(parse_shared(text)[1]) > options.topic_max_depth):
        return ReasonCode.TOPIC_FILTER_INVALID
    session = connection.session
    assert session is not None
    limit = options.max_subscriptions_per_client
    if limit and len(session.subscriptions) >= limit and text not in session.subscriptions:
        return ReasonCode.QUOTA_EXCEEDED
    return None


def _ask(connection: ClientConnection, packet: packets.Subscribe) -> Any:
    chain = connection.origin.listener.authz_plugins or None
    if connection.version == 5:
        topics: list[Any] = [(w.filter, _options(w)) for w in packet.subscriptions]
        hook, extra = "auth_on_subscribe_m5", [packet.properties or {}]
    else:
        topics = [(w.filter, w.qos) for w in packet.subscriptions]
        hook, extra = "auth_on_subscribe", []
    return connection.env.hooks.ask(hook, connection.username, connection.subscriber, topics, *extra, chain=chain)


def _options(wanted: packets.SubscribeOptions) -> dict[str, Any]:
    """The options of a filter, for plugins."""
    return {
        "qos": wanted.qos,
        "no_local": wanted.no_local,
        "rap": wanted.retain_as_published,
        "retain_handling": wanted.retain_handling,
    }


def _authorised(
    connection: ClientConnection, packet: packets.Subscribe, reasons: list[int | None], verdict: Verdict
) -> None:
    env, session = connection.env, connection.session
    assert session is not None
    if isinstance(verdict, Refuse):
        env.counters.subscribe_auth_error[connection.version == 5] += 1
        env.observer.denied(connection, "subscribe", packet.subscriptions[0].filter)
        code = verdict.reason_code or ReasonCode.NOT_AUTHORIZED
        codes = [code if reason is None else reason for reason in reasons]
        _suback(connection, packet, _answer(connection, packet, codes, verdict.properties), False)
        return
    if _refused(connection, packet):  # the node may have lost its lease while the plugin took its time (H-04)
        return
    _apply_modifiers(packet, reasons, verdict.modifiers.get("topics"))
    properties = verdict.modifiers.get("properties", {})
    _add(connection, session, _Adding(packet, reasons, [], [], AckContext(), properties))


@dataclass(slots=True)
class _Adding:
    """A SUBSCRIBE whose filters are being added. `answers` has a code for each filter that is done, `due` the replays
    that SUBACK promises, `context` the conditions that SUBACK waits for so far. `properties`: those of SUBACK, from a
    plugin."""

    packet: packets.Subscribe
    reasons: list[int | None]
    answers: list[int]
    due: list[DueReplay]
    context: AckContext
    properties: Mapping[str, Any]
    wrote: bool = False


def _add(connection: ClientConnection, session: Session, adding: _Adding) -> None:
    """Add the next `FILTERS_PER_TURN` filters. The connection's other packets wait until all are added."""
    env, packet, answers = connection.env, adding.packet, adding.answers
    identifier = (packet.properties or {}).get("subscription_identifier", 0)
    for number in range(len(answers), min(len(packet.subscriptions), len(answers) + FILTERS_PER_TURN)):
        wanted, reason = packet.subscriptions[number], adding.reasons[number]
        reason = reason if reason is not None else _problem(connection, wanted.filter)
        if reason is not None:
            answers.append(reason)
            continue
        due = session.subscribe(wanted.filter, _make(connection, session, wanted, identifier), adding.context)
        if due is not None:
            adding.due.append(due)
        adding.wrote = session.durable
        env.observer.subscription_added(session, wanted.filter, wanted.qos, adding.context.write)
        answers.append(wanted.qos)
    if len(answers) < len(packet.subscriptions):
        connection.flow.hold(FILTERS)
        env.after_turn(lambda: _add_more(connection, session, adding))
        return
    _added(connection, adding)


def _add_more(connection: ClientConnection, session: Session, adding: _Adding) -> None:
    connection.env.tick()
    if connection.closed or connection.session is not session:
        return  # the client has disconnected
    if why := _refusal(connection, "subscribe"):  # SUBACK would not wait for the routes of the rest (H-04)
        connection.disconnect(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, why, LEASE_LOST)
        return
    _add(connection, session, adding)
    if len(adding.answers) == len(adding.packet.subscriptions):
        connection.flow.release(FILTERS)


def _added(connection: ClientConnection, adding: _Adding) -> None:
    packet, answers, wrote = adding.packet, adding.answers, adding.wrote
    _notify(connection, packet, answers)
    answer = _answer(connection, packet, answers, adding.properties)
    _suback(connection, packet, answer, wrote, SUBSCRIBE, adding.context)
    # retained messages come after SUBACK, and after everything that was routed before it
    connection.acks.reply(lambda: _replay(connection, adding.due), False)


def _apply_modifiers(packet: packets.Subscribe, reasons: list[int | None], topics: Any) -> None:
    """Apply the plugin's changes of filters and options, and its refusals of single filters (docs/plugins.md)."""
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


def _make(
    connection: ClientConnection, session: Session, wanted: packets.SubscribeOptions, identifier: int
) -> Subscription:
    group, pattern = parse_shared(wanted.filter)
    return Subscription(
        session,
        pattern,
        group,
        wanted.qos,
        # a bridge (protocol levels 131 and 132) gets RETAIN as published, and never its own messages
        wanted.no_local or (connection.bridge and group is None),
        wanted.retain_as_published or connection.bridge,
        wanted.retain_handling,
        identifier,
    )


def _suback(
    connection: ClientConnection,
    packet: packets.Subscribe,
    answer: packets.Suback,
    wait: bool,
    operation: int = 0,
    context: AckContext | None = None,
) -> None:
    connection.env.counters.suback_sent[connection.version == 5] += 1
    filters = [wanted.filter for wanted in packet.subscriptions]
    context = context or AckContext()
    send = partial(_send, connection, answer, _row(connection, "subscribe", filters, answer.reasons, context.write))
    connection.acks.accept(send, wait, context, operation=operation)


def _answer(
    connection: ClientConnection,
    packet: packets.Subscribe,
    reasons: list[int],
    properties: Mapping[str, Any] = NO_PROPERTIES,
) -> packets.Suback:
    if connection.version != 5:
        reasons = [V3_REFUSED if reason > 2 else reason for reason in reasons]
    return packets.Suback(packet.packet_id, reasons, _said(connection, properties))


def _said(connection: ClientConnection, properties: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a plugin adds to an answer, if the client takes it [MQTT5-3.1.2-29]."""
    taken = connection.version == 5 and connection.problem_information
    return dict(properties) or None if taken else None


def _row(
    connection: ClientConnection, operation: str, filters: list[str], reasons: list[int], write: int = 0
) -> Callable[[str], None]:
    """Return the function that writes the row of the event log when SUBACK or UNSUBACK leaves."""
    observer = connection.env.observer
    if operation == "subscribe":
        row = partial(observer.subscription_answered, connection, filters, reasons, write)
    else:
        row = partial(observer.unsubscription_answered, connection, filters, reasons)
    return connection.by_its_right(row, operation)


def _send(connection: ClientConnection, answer: packets.Suback | packets.Unsuback, row: Callable[[str], None]) -> None:
    connection.output.send_packet(answer)
    connection.output.acked.append(row)


def resumed(connection: ClientConnection) -> None:
    """Continue the replays of retained messages for a session that has a client again (P4)."""
    _replay(connection, [])


def _replay(connection: ClientConnection, promised: list[DueReplay]) -> None:
    session = connection.session
    if session is None:
        return
    for due in promised:
        session.replays.answered(due)
    if session.queue.replay is not None:
        session.queue.replay.go_on()


def unsubscribe(connection: ClientConnection, packet: packets.Unsubscribe) -> None:
    """UNSUBSCRIBE: the answer tells v5 clients for each filter whether the session had it [MQTT5-3.11.3-2]."""
    connection.flow.worked(len(packet.filters))
    env = connection.env
    env.counters.unsubscribe_received[connection.version == 5] += 1
    why = _refusal(connection, "unsubscribe")
    if why:
        env.counters.unsubscribe_error[connection.version == 5] += 1
        connection.services.policy.deny(connection, "unsubscribe", "", why)
        if connection.version == 5:
            reasons = [int(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)] * len(packet.filters)
            _unsuback(connection, packet.filters, packets.Unsuback(packet.packet_id, reasons), False)
        return
    hook, extra = (
        ("on_unsubscribe_m5", [packet.properties or {}]) if connection.version == 5 else ("on_unsubscribe", [])
    )
    if not env.hooks.has(hook):
        _remove(connection, packet.packet_id, packet.filters)
        return
    question = env.hooks.ask(hook, connection.username, connection.subscriber, packet.filters, *extra)
    connection.flow.decide(question, lambda verdict: _unsubscribe_decided(connection, packet, verdict))


def _unsubscribe_decided(connection: ClientConnection, packet: packets.Unsubscribe, verdict: Verdict) -> None:
    changed = {} if isinstance(verdict, Refuse) else verdict.modifiers
    filters = changed.get("topics", packet.filters)
    _remove(connection, packet.packet_id, list(filters), changed.get("properties", {}))


def _remove(
    connection: ClientConnection, packet_id: int, filters: list[str], properties: Mapping[str, Any] = NO_PROPERTIES
) -> None:
    session = connection.session
    assert session is not None
    reasons: list[int] = []
    removed = False
    for text in filters:
        found = session.unsubscribe(text)
        removed = removed or found
        reasons.append(0 if found else ReasonCode.NO_SUBSCRIPTION_EXISTED)
        if found:
            connection.env.observer.subscription_removed(session, text)
    answer = packets.Unsuback(packet_id, reasons, _said(connection, properties))
    _unsuback(connection, filters, answer, session.durable and removed, UNSUBSCRIBE)
    if connection.env.hooks.has("on_topic_unsubscribed"):
        connection.env.hooks.notify("on_topic_unsubscribed", connection.subscriber, filters)


def _unsuback(
    connection: ClientConnection, filters: list[str], answer: packets.Unsuback, wait: bool, operation: int = 0
) -> None:
    connection.env.counters.unsuback_sent[connection.version == 5] += 1
    send = partial(_send, connection, answer, _row(connection, "unsubscribe", filters, answer.reasons))
    if connection.version != 5:
        answer.reasons = []
    connection.acks.reply(send, wait, operation=operation)


def _notify(connection: ClientConnection, packet: packets.Subscribe, answers: list[int]) -> None:
    """Tell plugins of the filters, each with its QoS or options; one that is refused with its code."""
    hooks, who = connection.env.hooks, (connection.username, connection.subscriber)
    both = list(zip(packet.subscriptions, answers, strict=True))
    if connection.version == 5:
        granted = [(w.filter, _options(w) if code <= 2 else int(code)) for w, code in both]
        hooks.notify("on_subscribe_m5", *who, granted, packet.properties or {})
    else:
        hooks.notify("on_subscribe", *who, [(w.filter, code if code <= 2 else V3_REFUSED) for w, code in both])

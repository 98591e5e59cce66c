"""CONNECT, PINGREQ and DISCONNECT: the rules for the start and end of a connection, for all three versions."""

from __future__ import annotations

from typing import Any

import msgspec

from ...cluster.identity import slot_of
from ...mqtt import packets
from ...mqtt.encoder import encode
from ...mqtt.reasons import ReasonCode
from ...mqtt.topics import levels
from ...mqtt.wire import MAX_VARINT, encode_varint
from ..observer import Asked
from ..operation_policy import COPIES, NETSPLIT
from ..options import Options
from ..plugins.hooks import Refuse, Subscriber, Verdict
from ..queues.records import WillRecord
from ..reporting.log_line import Line, address
from ..sessions.absence import NEVER
from ..sessions.latest_connect import OUTDATED
from ..sessions.registry import Registration
from ..sessions.session import QUEUE_UNREADABLE, Session, client_key_of
from . import auth, subscribe
from .ack_queue import REGISTER
from .connection import ClientConnection
from .handshake import Admission, Handshake
from .publish_frames import plugin_sees_deliveries
from .refusal import TOO_MANY_LOGINS, count_refused_login, refuse, refuse_verdict, too_many_logins
from .states import Event

PINGRESP = b"\xd0\x00"

_OWN = frozenset(
    (
        "assigned_client_identifier",
        "authentication_method",
        "maximum_packet_size",
        "receive_maximum",
        "session_expiry_interval",
        "topic_alias_maximum",
    )
)
"""Properties of CONNACK that state the limits and features of the broker."""


def connect(connection: ClientConnection, packet: packets.Connect) -> None:
    """CONNECT: check, authenticate, authorise the will, register, answer."""
    connection.timers.cancel("connect")
    env = connection.env
    connection.output.version = packet.version
    env.counters.connect_received[packet.version == 5] += 1
    connection.change(Event.CONNECT)
    connection.handshake = Handshake(packet, env.options.max_message_size or MAX_VARINT, env.now)
    connection.bridge = packet.bridge
    connection.output.frame_key = 16 if packet.version == 5 else 0
    if connection.username is None:
        connection.username = packet.username
    connection.mountpoint = connection.origin.listener.mountpoint
    properties = packet.properties or {}
    connection.problem_information = properties.get("request_problem_information", 1) != 0
    connection.output.packet_limit = properties.get("maximum_packet_size", 0)  # of a refusal as well [MQTT5-3.1.2-24]
    problem = _problem(connection, packet)
    if problem is not None:
        refuse(connection, *problem)
        return
    connection.client_id = packet.client_id or connection.services.new_client_id()
    connection.subscriber = Subscriber(connection.mountpoint, connection.client_id)
    if "authentication_method" in properties:
        auth.begin(connection, properties, lambda: authorise_will(connection))
    else:
        authenticate(connection)


def admit(connection: ClientConnection, packet: packets.Connect, admission: Admission, waited_ms: int) -> None:
    """Serve a client that another node has admitted: register it, answer. No hook is asked again. `waited_ms`: the time
    since that node has received the CONNECT."""
    connection.timers.cancel("connect")
    connection.output.version = connection.decoder.version = packet.version
    connection.change(Event.CONNECT)
    connection.handshake = Handshake(packet, admission.message_limit, connection.env.now, waited_ms)
    connection.bridge = packet.bridge
    connection.output.frame_key = 16 if packet.version == 5 else 0
    connection.output.packet_limit = admission.packet_limit
    connection.username = admission.username
    connection.mountpoint = admission.mountpoint
    connection.client_id = admission.client_id
    connection.subscriber = Subscriber(admission.mountpoint, admission.client_id)
    connection.problem_information = admission.problem_information
    connection.modifiers = admission.modifiers
    connection.auth.method = admission.auth_method
    register(connection)


def waited_ms(connection: ClientConnection) -> int:
    """Return the ms since the client's node has received the CONNECT. The client may have given it up meanwhile."""
    handshake = _handshake(connection)
    return handshake.waited_ms + connection.env.since(handshake.came_at)


def refuse_outdated(connection: ClientConnection) -> None:
    """Refuse a CONNECT that began before the latest one of its client (H-37). A client that still waits for the answer
    may connect again at once."""
    refuse(connection, ReasonCode.SERVER_UNAVAILABLE, OUTDATED)


def admission_of(connection: ClientConnection) -> tuple[packets.Connect, Admission]:
    """Return the CONNECT of an admitted client, without its password, and the decisions about it: for `admit`."""
    handshake = _handshake(connection)
    admission = Admission(
        connection.mountpoint,
        connection.client_id,
        connection.username,
        connection.modifiers,
        connection.auth.method,
        handshake.message_limit,
        connection.output.packet_limit,
        connection.problem_information,
    )
    return msgspec.structs.replace(handshake.packet, password=None), admission


def _problem(connection: ClientConnection, packet: packets.Connect) -> tuple[ReasonCode, str] | None:
    """Return the reason to refuse this CONNECT before plugins are asked; None if there is none."""
    options = connection.env.options
    number = packet.version | (0x80 if packet.bridge else 0)
    if number not in connection.origin.listener.allowed_protocol_versions:
        return ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, f"protocol version {number} is not allowed on this listener"
    if connection.origin.listener.names_users and connection.origin.username is None:
        # otherwise the client could choose its user name
        return ReasonCode.BAD_USER_NAME_OR_PASSWORD, "the client certificate has no common name, or more than one"
    if not packet.client_id and (packet.version == 3 or (packet.version == 4 and not packet.clean_start)):
        # [MQTT-3.1.3-8]; 3.1 has no empty client identifier at all
        return ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "an empty client identifier needs a clean session"
    if len(packet.client_id.encode()) > options.max_client_id_size:
        return ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, f"client identifier above {options.max_client_id_size} bytes"
    will = packet.will
    if will is not None:
        depth = options.topic_max_depth
        if depth and levels(will.topic) > depth:
            return ReasonCode.TOPIC_NAME_INVALID, f"the will's topic has more than {depth} levels (topic_max_depth)"
    return None


def authenticate(connection: ClientConnection) -> None:
    """Ask the plugins of the registration chain, unless the listener or the node accepts all clients."""
    packet = _handshake(connection).packet
    if connection.env.options.allow_anonymous or connection.origin.listener.allow_anonymous_override:
        authorise_will(connection)
        return
    if too_many_logins(connection):
        refuse(connection, ReasonCode.CONNECTION_RATE_EXCEEDED, TOO_MANY_LOGINS)
        return
    arguments: list[Any] = [
        connection.peer,
        connection.subscriber,
        connection.username,
        packet.password,
        packet.clean_start,
    ]
    hook = "auth_on_register"
    if packet.version == 5:
        hook = "auth_on_register_m5"
        arguments.append(packet.properties or {})
    if connection.origin.listener.forward_connection_opts:
        arguments.append(connection.origin.connection_options())
    chain = connection.origin.listener.auth_plugins or None
    connection.flow.decide(
        connection.env.hooks.ask(hook, *arguments, chain=chain), lambda verdict: _authenticated(connection, verdict)
    )


def _authenticated(connection: ClientConnection, verdict: Verdict) -> None:
    if isinstance(verdict, Refuse):
        count_refused_login(connection, verdict)
        refuse_verdict(connection, verdict)
        return
    _take_modifiers(connection, _handshake(connection), dict(verdict.modifiers))
    authorise_will(connection)


def _take_modifiers(connection: ClientConnection, handshake: Handshake, modifiers: dict[str, Any]) -> None:
    """Apply the modifiers of the plugin to this client (docs/plugins.md); `register` and `_welcome` read the others."""
    connection.modifiers = modifiers
    connection.username = modifiers.get("username", connection.username)
    if "subscriber_id" in modifiers:
        connection.mountpoint, connection.client_id = modifiers["subscriber_id"]
    connection.subscriber = Subscriber(connection.mountpoint, connection.client_id)
    packet = handshake.packet
    packet.clean_start = modifiers.get("clean_session", modifiers.get("clean_start", packet.clean_start))
    if "max_message_size" in modifiers:
        handshake.message_limit = modifiers["max_message_size"] or MAX_VARINT
    connection.problem_information = modifiers.get("request_problem_info", connection.problem_information)
    # never more than the client takes [MQTT5-3.1.2-24]
    limits = (connection.output.packet_limit, modifiers.get("max_packet_size", 0))
    connection.output.packet_limit = min((limit for limit in limits if limit), default=0)


def _handshake(connection: ClientConnection) -> Handshake:
    """Return the current handshake. It exists: a closed connection ignores the answers of plugins."""
    assert connection.handshake is not None
    return connection.handshake


def authorise_will(connection: ClientConnection) -> None:
    """The will passes auth_on_publish at CONNECT time, as with VerneMQ. One to a topic of the broker is left out."""
    packet = _handshake(connection).packet
    will = packet.will
    if will is None:
        register(connection)
        return
    arguments: list[Any] = [connection.username, connection.subscriber, will.qos, will.topic, will.payload, will.retain]
    hook = "auth_on_publish"
    if packet.version == 5:
        hook = "auth_on_publish_m5"
        arguments.append(will.properties or {})
    chain = connection.origin.listener.authz_plugins or None
    connection.flow.decide(
        connection.env.hooks.ask(hook, *arguments, chain=chain), lambda verdict: _will_authorised(connection, verdict)
    )


def _will_authorised(connection: ClientConnection, verdict: Verdict) -> None:
    if isinstance(verdict, Refuse):
        refuse(connection, ReasonCode(verdict.reason_code or ReasonCode.NOT_AUTHORIZED), "the will is not authorised")
        return
    packet = _handshake(connection).packet
    assert packet.will is not None
    for field in ("topic", "payload", "qos", "retain", "properties"):
        if field in verdict.modifiers:
            setattr(packet.will, field, verdict.modifiers[field])
    if packet.will.topic.startswith("$") and "topic" not in verdict.modifiers:
        # clients do not publish to the broker's own topics (section 4.7.2); each bridge of mosquitto has such a will
        connection.env.counters.publish_error[connection.version == 5] += 1
        packet.will = None
    register(connection)


def register(connection: ClientConnection) -> None:
    """Ask the session registry for the session. If a policy forbids it, answer 3 or 0x88 (docs/netsplit.md)."""
    handshake = _handshake(connection)
    packet, env, services = handshake.packet, connection.env, connection.services
    if not services.policy.allows("register", connection.modifiers):
        _deny(connection, NETSPLIT, "the cluster is not complete")
        return
    if services.relay is not None:
        if services.relay(connection):
            return
    else:
        client = client_key_of(connection.mountpoint, connection.client_id)
        if services.sessions.is_outdated(client, waited_ms(connection)):
            refuse_outdated(connection)
            return
    _negotiate(connection, handshake)
    output = connection.output
    if output.packet_limit and not _can_welcome(connection, handshake):
        detail = f"CONNACK is larger than the client's maximum packet size, {output.packet_limit} bytes"
        refuse(connection, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, detail)
        return
    if services.policy.few_copies and _lacks_copies(connection, handshake):
        _deny(connection, COPIES, "the session would have too few copies")
        return
    if not env.store.accepting and _needs_disk(connection, handshake):
        refuse(connection, ReasonCode.QUOTA_EXCEEDED, "the message store takes nothing now")
        return
    output.slow_send = bool(output.packet_limit or output.topic_alias_limit or plugin_sees_deliveries(env.hooks))
    kept = ("max_online_messages", "max_offline_messages", "queue_type", "upgrade_qos", "shared_subscription_policy")
    request = Registration(
        connection,
        connection.mountpoint,
        connection.client_id,
        packet.version,
        connection.username,
        packet.clean_start,
        handshake.expiry_s,
        _will_record(connection, packet.will),
        handshake.window,
        {name: connection.modifiers[name] for name in kept if name in connection.modifiers},
        waited_ms(connection),
    )
    connection.publishing.plans = services.router.plans(connection.mountpoint)
    services.sessions.register(
        request,
        lambda session, present, wrote: _registered(connection, session, present, wrote),
        lambda: refuse(connection, ReasonCode.SERVER_UNAVAILABLE, QUEUE_UNREADABLE),
    )


def _deny(connection: ClientConnection, why: str, detail: str) -> None:
    """A policy forbids the registration."""
    connection.env.counters.connect_error += 1
    connection.services.policy.deny(connection, "register", "", why)
    refuse(connection, ReasonCode.SERVER_UNAVAILABLE, detail)


def _lacks_copies(connection: ClientConnection, handshake: Handshake) -> bool:
    """True if a durable session would begin in a slot that has too few copies. One that exists continues."""
    slot = slot_of(connection.mountpoint, connection.client_id)
    if not handshake.expiry_s or slot not in connection.services.policy.few_copies:
        return False
    if handshake.packet.clean_start:
        return True
    session = connection.services.sessions.get(connection.mountpoint, connection.client_id)
    return session is None or not session.durable


def asked_expiry_s(packet: packets.Connect, modifiers: dict[str, Any], options: Options) -> int:
    """Return the session expiry interval of a CONNECT in seconds: 0 if its session ends with the connection."""
    if packet.version != 5:
        return 0 if packet.clean_start else min(options.persistent_client_expiration_s or NEVER, NEVER)
    asked: int = (packet.properties or {}).get("session_expiry_interval", 0)
    return min(int(modifiers.get("session_expiry_interval", asked)), NEVER)


def _negotiate(connection: ClientConnection, handshake: Handshake) -> None:
    """Set the limits of this connection: the least that client, plugins and configuration allow."""
    packet, options, modifiers = handshake.packet, connection.env.options, connection.modifiers
    handshake.expiry_s = asked_expiry_s(packet, modifiers, options)
    if packet.version != 5:
        handshake.window = modifiers.get("max_inflight_messages", options.max_inflight_messages) or 65535
        return
    properties = packet.properties or {}
    # never more than the client takes [MQTT5-3.3.4-9]
    most = modifiers.get("fc_receive_max_client") or options.receive_max_client
    handshake.window = min(properties.get("receive_maximum", 65535), most)
    most = options.topic_alias_max_broker
    connection.output.topic_alias_limit = min(properties.get("topic_alias_maximum", 0), most)
    publishing = connection.publishing
    publishing.receive_maximum = min(modifiers.get("fc_receive_max_broker") or options.receive_max_broker, 65535)
    publishing.alias_maximum = min(modifiers.get("topic_alias_max", options.topic_alias_max_client), 65535)


def _can_welcome(connection: ClientConnection, handshake: Handshake) -> bool:
    """True if CONNACK is within the client's maximum packet size [MQTT5-3.1.2-24]."""
    properties: dict[str, Any] = {}
    if connection.version == 5:
        properties = _connack_properties(connection, handshake, handshake.expiry_s)
    connack = packets.Connack(True, 0, properties or None)
    return encode(connack, connection.version, connection.output.packet_limit) is not None


def _needs_disk(connection: ClientConnection, handshake: Handshake) -> bool:
    """True if CONNACK would wait for the disk: to store a session or a will, or to delete an old session."""
    if handshake.expiry_s > 0 or handshake.packet.will is not None:
        return True
    return connection.services.sessions.on_disk(connection.mountpoint, connection.client_id)


def _will_record(connection: ClientConnection, will: packets.Will | None) -> WillRecord | None:
    if will is None:
        return None
    properties = dict(will.properties or {})
    delay = properties.pop("will_delay_interval", 0)
    cap = connection.env.options.max_last_will_delay_s
    expiry = properties.pop("message_expiry_interval", -1)
    return WillRecord(
        will.topic,
        will.payload,
        will.qos,
        will.retain,
        properties or None,
        expiry,
        delay if cap < 0 else min(delay, cap),
        connection.env.unique_name(),
    )


def _registered(connection: ClientConnection, session: Session, present: bool, wrote: bool) -> None:
    connection.session = session
    connection.change(Event.REGISTERED)
    connection.decoder.max_packet_size = _handshake(connection).message_limit
    connection.decoder.go_on()
    connection.output.transport.accepted()
    # CONNACK is the first packet [MQTT-3.2.0-1]. The queue waits for it, because the connection is not writable before.
    # Packets after CONNECT wait as well: none of them may close a connection whose client has no CONNACK yet.
    will = session.parts.wills.before_connack(session.key)
    if wrote:
        connection.flow.hold("connack")
    connection.acks.reply(lambda: _welcome(connection, session, present), wrote, pending=will, operation=REGISTER)


def _welcome(connection: ClientConnection, session: Session, present: bool) -> None:
    handshake, env = _handshake(connection), connection.env
    packet = handshake.packet
    properties = _connack_properties(connection, handshake, session.expiry_s) if packet.version == 5 else {}
    connection.output.send_packet(packets.Connack(present, 0, properties or None))
    connection.output.acked.append(lambda _: session.welcomed())  # the node may have lost its lease (H-19)
    env.counters.connack_sent(connection.version, 0)
    connection.change(Event.CONNACK)
    startup = connection.services.sessions.startup
    if not startup.ready:
        # nothing may be routed before the node knows all subscriptions
        connection.flow.hold("start")
        startup.when_ready(lambda: connection.flow.release("start"))
    keepalive = properties.get("server_keep_alive", packet.keepalive_s)  # [MQTT5-3.2.2-21] [MQTT5-3.2.2-22]
    connection.timers.keepalive_ms = keepalive * 1500
    if not connection.output.transport.watch_silence(connection.timers.keepalive_ms) and keepalive:
        connection.timers.set("keepalive", connection.timers.keepalive_ms, lambda: _keepalive(connection))
    if packet.version != 5:
        retry_s = connection.modifiers.get("retry_interval", env.options.retry_interval_s)
        if retry_s:
            connection.timers.set("retry", retry_s * 1000, lambda: _retry(connection, retry_s * 1000))
    lifetime = connection.modifiers.get("max_connection_lifetime", connection.origin.listener.max_connection_lifetime_s)
    if lifetime:
        connection.timers.set(
            "lifetime",
            lifetime * 1000,
            lambda: connection.disconnect(ReasonCode.MAXIMUM_CONNECT_TIME, "max_connection_lifetime reached"),
        )
    will = session.will
    delay_s, will_id = (None, None) if will is None else (will.delay_s, will.id)
    asked = Asked(
        packet.clean_start, session.expiry_s, handshake.window, keepalive, delay_s, will_id, packet.properties or {}
    )
    env.observer.connection_opened(connection, session, present, asked)
    if present and env.events.messages and session.queue.counted >= 0:  # else the count would read the disk
        env.observer.message_depth(session, session.queue.size + len(session.queue.inflight))
    connection.handshake = None
    if not connection.output.transport_paused:
        connection.output.resume()
    subscribe.resumed(connection)
    connection.flow.release("connack")


def _connack_properties(connection: ClientConnection, handshake: Handshake, expiry_s: int) -> dict[str, Any]:
    packet = handshake.packet
    # for each of these limits of the broker, plugins have a modifier
    properties = {name: value for name, value in connection.modifiers.get("properties", {}).items() if name not in _OWN}
    asked = packet.properties or {}
    if not packet.client_id:
        properties["assigned_client_identifier"] = connection.client_id  # [MQTT5-3.2.2-16]
    if expiry_s != asked.get("session_expiry_interval", 0):
        properties["session_expiry_interval"] = expiry_s
    if connection.publishing.receive_maximum != 65535:
        properties["receive_maximum"] = connection.publishing.receive_maximum
    limit = handshake.message_limit
    if limit < MAX_VARINT:
        # the limit applies to the remaining length; the property includes the fixed header
        properties["maximum_packet_size"] = 1 + len(encode_varint(limit)) + limit
    if connection.publishing.alias_maximum:
        properties["topic_alias_maximum"] = connection.publishing.alias_maximum
    if connection.auth.method is not None:
        properties["authentication_method"] = connection.auth.method
    if not asked.get("request_response_information", 0):
        properties.pop("response_information", None)  # [MQTT5-3.1.2-28]
    if not connection.problem_information:
        properties.pop("reason_string", None)
    return properties


def _keepalive(connection: ClientConnection) -> None:
    """One and a half keep alive intervals of silence end the connection [MQTT-3.1.2-24] [MQTT5-3.1.2-22]."""
    env = connection.env
    silent_ms = env.since(connection.flow.last_seen)
    left_ms = connection.timers.keepalive_ms - (0 if connection.flow.paused_for else silent_ms)
    if left_ms > 0:
        connection.timers.set("keepalive", left_ms, lambda: _keepalive(connection))
        return
    silent(connection, silent_ms)


def silent(connection: ClientConnection, silent_ms: int) -> None:
    """The client was silent for longer than its keep alive interval allows: log it, and close the connection."""
    env = connection.env
    env.counters.keepalive_expired[connection.version == 5] += 1
    line = Line(
        "conn.keepalive",
        "keep alive expired: the client was silent, its connection is closed",
        client_id=connection.client_id,
        user=connection.username,
        peer=address(connection.peer),
        silent_ms=silent_ms,
    )
    env.log("warning" if env.options.keepalive_as_warning else "info", line)
    connection.disconnect(ReasonCode.KEEP_ALIVE_TIMEOUT)


def _retry(connection: ClientConnection, interval_ms: int) -> None:
    if connection.session is not None:
        connection.session.queue.retry(connection.env.now - interval_ms)
        connection.timers.set("retry", interval_ms // 2 or 1, lambda: _retry(connection, interval_ms))


def pingreq(connection: ClientConnection, packet: packets.Pingreq) -> None:
    """PINGREQ is always answered [MQTT-3.12.4-1] [MQTT5-3.12.4-1]."""
    connection.env.counters.pingreq_received[connection.version == 5] += 1
    if connection.connected:
        # not after acknowledgements that wait for a slow disk: the client would assume that the broker is dead
        connection.output.write(PINGRESP)
    else:
        connection.acks.reply(PINGRESP, False)


def disconnect(connection: ClientConnection, packet: packets.Disconnect) -> None:
    """DISCONNECT: delete the will, unless a v5 client asks for it with 0x04 [MQTT-3.14.4-3] [MQTT5-3.14.4-3]."""
    session = connection.session
    connection.env.counters.disconnect_received(connection.version, packet.reason)
    if session is not None and packet.properties and "session_expiry_interval" in packet.properties:
        expiry: int = packet.properties["session_expiry_interval"]
        if session.expiry_s == 0 and expiry:
            # section 3.14.2.2.2
            connection.disconnect(ReasonCode.PROTOCOL_ERROR, "a session expiry interval of 0 cannot be raised")
            return
        # a plugin that has set the interval has set the most that the client may ask for
        session.expiry_s = min(expiry, connection.modifiers.get("session_expiry_interval", expiry))
    connection.drop("disconnect", fire_will=packet.reason != 0)

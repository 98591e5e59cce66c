"""CONNECT, PINGREQ and DISCONNECT: the rules of a connection's begin and end, for all three versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...mqtt import packets
from ...mqtt.encoder import encode
from ...mqtt.reasons import ReasonCode
from ...mqtt.topics import levels
from ...mqtt.wire import MAX_VARINT, encode_varint
from ..plugins.hooks import BROKEN, Refuse, Subscriber, Verdict
from ..queues.records import WillRecord
from ..reporting.log_line import Line, address
from ..sessions.registry import Registration
from ..sessions.session import NEVER, Session
from . import auth, subscribe
from .ack_queue import REGISTER
from .refusal import QUEUE_UNREADABLE, refuse, refuse_verdict

if TYPE_CHECKING:
    from .connection import ClientConnection

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
"""Properties of CONNACK that say what the broker does."""


def connect(front: ClientConnection, packet: packets.Connect) -> None:
    """CONNECT: check, authenticate, authorise the will, register, answer."""
    front.cancel_timer("connect")
    node = front.node
    front.version = packet.version
    node.counters.connect_received[packet.version == 5] += 1
    front.connect_packet = packet
    front.bridge = packet.bridge
    front.frame_key = 16 if packet.version == 5 else 0
    if front.username is None:
        front.username = packet.username
    front.mountpoint = front.origin.listener.mountpoint
    problem = _problem(front, packet)
    if problem is not None:
        refuse(front, *problem)
        return
    front.client_id = packet.client_id or node.new_client_id()
    front.subscriber = Subscriber(front.mountpoint, front.client_id)
    properties = packet.properties or {}
    front.problem_information = properties.get("request_problem_information", 1) != 0
    front.client_packet_limit = properties.get("maximum_packet_size", 0)
    if "authentication_method" in properties:
        auth.begin(front, properties, authorise_will)
    else:
        authenticate(front)


def _problem(front: ClientConnection, packet: packets.Connect) -> tuple[ReasonCode, str] | None:
    """What forbids this CONNECT before anybody is asked."""
    options = front.node.options
    number = packet.version | (0x80 if packet.bridge else 0)
    if number not in front.origin.listener.allowed_protocol_versions:
        return ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, f"protocol version {number} is not allowed on this listener"
    if not packet.client_id and (packet.version == 3 or (packet.version == 4 and not packet.clean_start)):
        # [MQTT-3.1.3-8]; 3.1 knows no empty client identifier at all
        return ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "an empty client identifier needs a clean session"
    if len(packet.client_id.encode()) > options.max_client_id_size:
        return ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, f"client identifier above {options.max_client_id_size} bytes"
    will = packet.will
    if will is not None:
        depth = options.topic_max_depth
        if will.topic.startswith("$") or (depth and levels(will.topic) > depth):
            return ReasonCode.TOPIC_NAME_INVALID, "the will's topic is not allowed"
    return None


def authenticate(front: ClientConnection) -> None:
    """Ask the registration chain, unless the listener or the node takes everybody."""
    packet = front.connect_packet
    assert packet is not None
    if front.node.options.allow_anonymous or front.origin.listener.allow_anonymous_override:
        authorise_will(front)
        return
    most, failed = front.node.options.max_failed_logins, front.node.failed_logins
    if most and front.username is not None and failed.too_many(front.peer[0], front.username, most, front.node.now):
        detail = "too many failed logins with this user name from this address: wait a minute"
        refuse(front, ReasonCode.CONNECTION_RATE_EXCEEDED, detail)
        return
    arguments: list[Any] = [front.peer, front.subscriber, front.username, packet.password, packet.clean_start]
    hook = "auth_on_register"
    if packet.version == 5:
        hook = "auth_on_register_m5"
        arguments.append(packet.properties or {})
    if front.origin.listener.forward_connection_opts:
        arguments.append(front.origin.connection_options())
    chain = front.origin.listener.auth_plugins or None
    front.decide(front.node.hooks.ask(hook, *arguments, chain=chain), lambda verdict: _authenticated(front, verdict))


def _authenticated(front: ClientConnection, verdict: Verdict) -> None:
    if isinstance(verdict, Refuse):
        if front.username is not None and verdict is not BROKEN:
            front.node.failed_logins.failed(front.peer[0], front.username, front.node.now)
        refuse_verdict(front, verdict)
        return
    packet = front.connect_packet
    assert packet is not None
    _take_modifiers(front, packet, dict(verdict.modifiers))
    authorise_will(front)


def _take_modifiers(front: ClientConnection, packet: packets.Connect, modifiers: dict[str, Any]) -> None:
    """What the plugin changes of this client (docs/plugins.md); `register` and `_welcome` look for the rest."""
    front.modifiers = modifiers
    front.username = modifiers.get("username", front.username)
    if "subscriber_id" in modifiers:
        front.mountpoint, front.client_id = modifiers["subscriber_id"]
    front.subscriber = Subscriber(front.mountpoint, front.client_id)
    packet.clean_start = modifiers.get("clean_session", modifiers.get("clean_start", packet.clean_start))
    if "max_message_size" in modifiers:
        front.message_limit = modifiers["max_message_size"] or MAX_VARINT
    front.problem_information = modifiers.get("request_problem_info", front.problem_information)
    # never more than the client takes [MQTT5-3.1.2-24]
    limits = (front.client_packet_limit, modifiers.get("max_packet_size", 0))
    front.client_packet_limit = min((limit for limit in limits if limit), default=0)


def authorise_will(front: ClientConnection) -> None:
    """The will passes auth_on_publish at CONNECT time, as with VerneMQ."""
    packet = front.connect_packet
    assert packet is not None
    will = packet.will
    if will is None:
        register(front)
        return
    arguments: list[Any] = [front.username, front.subscriber, will.qos, will.topic, will.payload, will.retain]
    hook = "auth_on_publish"
    if packet.version == 5:
        hook = "auth_on_publish_m5"
        arguments.append(will.properties or {})
    chain = front.origin.listener.authz_plugins or None
    front.decide(front.node.hooks.ask(hook, *arguments, chain=chain), lambda verdict: _will_authorised(front, verdict))


def _will_authorised(front: ClientConnection, verdict: Verdict) -> None:
    if isinstance(verdict, Refuse):
        refuse(front, ReasonCode(verdict.reason_code or ReasonCode.NOT_AUTHORIZED), "the will is not authorised")
        return
    packet = front.connect_packet
    assert packet is not None and packet.will is not None
    for field in ("topic", "payload", "qos", "retain", "properties"):
        if field in verdict.modifiers:
            setattr(packet.will, field, verdict.modifiers[field])
    register(front)


def register(front: ClientConnection) -> None:
    """Ask the client id's slot for the session; a split that forbids it answers 3 / 0x88 (docs/netsplit.md)."""
    packet = front.connect_packet
    assert packet is not None
    node = front.node
    if not node.allows("register", front):
        node.counters.connect_error += 1
        node.denied(front, "register", "", "netsplit")
        refuse(front, ReasonCode.SERVER_UNAVAILABLE, "the cluster is not complete")
        return
    options, modifiers, properties = node.options, front.modifiers, packet.properties or {}
    if packet.version == 5:
        asked: int = properties.get("session_expiry_interval", 0)
        expiry: int = min(modifiers.get("session_expiry_interval", asked), NEVER)
        # never more than the client takes [MQTT5-3.3.4-9]
        most = modifiers.get("fc_receive_max_client") or options.receive_max_client
        front.window = min(properties.get("receive_maximum", 65535), most)
        front.receive_maximum = min(modifiers.get("fc_receive_max_broker") or options.receive_max_broker, 65535)
        front.topic_alias_limit = min(properties.get("topic_alias_maximum", 0), options.topic_alias_max_broker)
        front.topic_alias_max = min(modifiers.get("topic_alias_max", options.topic_alias_max_client), 65535)
    else:
        expiry = 0 if packet.clean_start else (options.persistent_client_expiration_s or NEVER)
        front.window = modifiers.get("max_inflight_messages", options.max_inflight_messages) or 65535
    if front.client_packet_limit and not _can_welcome(front, packet, expiry):
        detail = f"CONNACK is larger than the client's maximum packet size, {front.client_packet_limit} bytes"
        refuse(front, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, detail)
        return
    if not node.store.accepting and _needs_disk(front, packet, expiry):
        refuse(front, ReasonCode.QUOTA_EXCEEDED, "the message store takes nothing now")
        return
    front.slow_send = bool(front.client_packet_limit or front.topic_alias_limit or node.deliver_hooked)
    kept = ("max_online_messages", "max_offline_messages", "queue_type", "upgrade_qos", "shared_subscription_policy")
    request = Registration(
        front,
        front.mountpoint,
        front.client_id,
        packet.version,
        front.username,
        packet.clean_start,
        expiry,
        _will_record(front, packet.will),
        front.window,
        {name: modifiers[name] for name in kept if name in modifiers},
    )
    front.plans = node.router.plans(front.mountpoint)
    node.slots.register(
        request,
        lambda session, present, wrote: _registered(front, session, present, wrote),
        lambda: refuse(front, ReasonCode.SERVER_UNAVAILABLE, QUEUE_UNREADABLE),
    )


def _can_welcome(front: ClientConnection, packet: packets.Connect, expiry_s: int) -> bool:
    """The client takes a packet as large as the CONNACK that it would get [MQTT5-3.1.2-24]."""
    properties = _connack_properties(front, packet, expiry_s) if packet.version == 5 else {}
    return encode(packets.Connack(True, 0, properties or None), front.version, front.client_packet_limit) is not None


def _needs_disk(front: ClientConnection, packet: packets.Connect, expiry_s: int) -> bool:
    """CONNACK would wait for the disk: for a session or a will that outlives the process, or for an old one's end."""
    return expiry_s > 0 or packet.will is not None or front.node.slots.on_disk(front.mountpoint, front.client_id)


def _will_record(front: ClientConnection, will: packets.Will | None) -> WillRecord | None:
    if will is None:
        return None
    properties = dict(will.properties or {})
    delay = properties.pop("will_delay_interval", 0)
    cap = front.node.options.max_last_will_delay_s
    expiry = properties.pop("message_expiry_interval", -1)
    return WillRecord(
        will.topic,
        will.payload,
        will.qos,
        will.retain,
        properties or None,
        expiry,
        delay if cap < 0 else min(delay, cap),
    )


def _registered(front: ClientConnection, session: Session, present: bool, wrote: bool) -> None:
    front.session = session
    front.decoder.max_packet_size = front.message_limit
    front.link.accepted()
    # CONNACK is the first packet [MQTT-3.2.0-1]; the queue waits for it, because the front is not writable before, and
    # so do the packets behind CONNECT: none of them may end a connection that was accepted before it has heard so
    if wrote:
        front.hold("connack")
    front.promise(lambda: _welcome(front, session, present), wrote, operation=REGISTER)


def _welcome(front: ClientConnection, session: Session, present: bool) -> None:
    packet = front.connect_packet
    assert packet is not None
    node = front.node
    properties = _connack_properties(front, packet, session.expiry_s) if packet.version == 5 else {}
    front.send_packet(packets.Connack(present, 0, properties or None))
    node.counters.connack_sent(front.version, 0)
    front.connected = True
    keepalive = properties.get("server_keep_alive", packet.keepalive_s)  # [MQTT5-3.2.2-21] [MQTT5-3.2.2-22]
    if keepalive:
        front.keepalive_ms = keepalive * 1500
        front.set_timer("keepalive", front.keepalive_ms, lambda: _keepalive(front))
    if packet.version != 5:
        retry_s = front.modifiers.get("retry_interval", node.options.retry_interval_s)
        if retry_s:
            front.set_timer("retry", retry_s * 1000, lambda: _retry(front, retry_s * 1000))
    lifetime = front.modifiers.get("max_connection_lifetime", front.origin.listener.max_connection_lifetime_s)
    if lifetime:
        front.set_timer(
            "lifetime",
            lifetime * 1000,
            lambda: front.disconnect(ReasonCode.MAXIMUM_CONNECT_TIME, "max_connection_lifetime reached"),
        )
    node.front_opened(front, session, present)
    front.connect_packet = None
    if not front.transport_paused:
        front.resume_sending()
    subscribe.resumed(front, session)
    front.release("connack")


def _connack_properties(front: ClientConnection, packet: packets.Connect, expiry_s: int) -> dict[str, Any]:
    # a plugin has other means to change what the broker itself goes by
    properties = {name: value for name, value in front.modifiers.get("properties", {}).items() if name not in _OWN}
    asked = packet.properties or {}
    if not packet.client_id:
        properties["assigned_client_identifier"] = front.client_id  # [MQTT5-3.2.2-16]
    if expiry_s != asked.get("session_expiry_interval", 0):
        properties["session_expiry_interval"] = expiry_s
    if front.receive_maximum != 65535:
        properties["receive_maximum"] = front.receive_maximum
    limit = front.message_limit
    if limit < MAX_VARINT:
        # it limits the remaining length; the property counts the fixed header too
        properties["maximum_packet_size"] = 1 + len(encode_varint(limit)) + limit
    if front.topic_alias_max:
        properties["topic_alias_maximum"] = front.topic_alias_max
    if front.auth_method is not None:
        properties["authentication_method"] = front.auth_method
    if not asked.get("request_response_information", 0):
        properties.pop("response_information", None)  # [MQTT5-3.1.2-28]
    if not front.problem_information:
        properties.pop("reason_string", None)
    return properties


def _keepalive(front: ClientConnection) -> None:
    """One and a half keep alive intervals of silence end the connection [MQTT-3.1.2-24] [MQTT5-3.1.2-22]."""
    node = front.node
    due = front.last_seen + front.keepalive_ms
    if front.paused_for:
        due = node.now + front.keepalive_ms
    if node.now < due:
        front.set_timer("keepalive", due - node.now, lambda: _keepalive(front))
        return
    node.counters.keepalive_expired[front.version == 5] += 1
    line = Line(
        "conn.keepalive",
        "keep alive expired: the client was silent, its connection is closed",
        client_id=front.client_id,
        user=front.username,
        peer=address(front.peer),
        silent_ms=node.now - front.last_seen,
    )
    node.log("warning" if node.options.keepalive_as_warning else "info", line)
    front.disconnect(ReasonCode.KEEP_ALIVE_TIMEOUT)


def _retry(front: ClientConnection, interval_ms: int) -> None:
    if front.session is not None:
        front.session.queue.retry(front.node.now - interval_ms)
        front.set_timer("retry", interval_ms // 2 or 1, lambda: _retry(front, interval_ms))


def pingreq(front: ClientConnection, packet: packets.Pingreq) -> None:
    """PINGREQ is always answered [MQTT-3.12.4-1] [MQTT5-3.12.4-1]."""
    front.node.counters.pingreq_received[front.version == 5] += 1
    if front.connected:
        # not behind acknowledgements that wait for a slow disk: the client would take the broker for dead
        front.write(PINGRESP)
    else:
        front.reply(PINGRESP, False)


def disconnect(front: ClientConnection, packet: packets.Disconnect) -> None:
    """DISCONNECT: the will is forgotten, unless v5 asks for it with 0x04 [MQTT-3.14.4-3] [MQTT5-3.14.4-3]."""
    session = front.session
    front.node.counters.disconnect_received(front.version, packet.reason)
    if session is not None and packet.properties and "session_expiry_interval" in packet.properties:
        expiry = packet.properties["session_expiry_interval"]
        if session.expiry_s == 0 and expiry:
            # section 3.14.2.2.2
            front.disconnect(ReasonCode.PROTOCOL_ERROR, "a session expiry interval of 0 cannot be raised")
            return
        session.expiry_s = expiry
    front.drop("disconnect", fire_will=packet.reason != 0)

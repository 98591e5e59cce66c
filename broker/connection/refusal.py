"""Answers with a reason: how each version learns that its CONNECT or PUBLISH is not accepted."""

from __future__ import annotations

from typing import Any

from ...mqtt import packets
from ...mqtt.errors import WireError
from ...mqtt.reasons import ALLOWED, ReasonCode, connect_return_for
from ..plugins.hooks import BROKEN, EXHAUSTED, Refuse
from .ack_queue import REGISTER
from .connection import LEASE_LOST, ClientConnection

TOO_MANY_LOGINS = "too many failed logins with this user name from this address: wait a minute"


def refuse(
    connection: ClientConnection,
    reason: ReasonCode,
    detail: str,
    properties: dict[str, Any] | None = None,
    why: str = "",
) -> None:
    """Answer CONNACK with this reason and close [MQTT-3.2.2-5] [MQTT5-3.2.2-7].

    `detail` is for the client and the log. If it is empty, the log has `why`.
    """
    if connection.closed:
        return
    if reason not in ALLOWED["Connack"]:
        reason = ReasonCode.NOT_AUTHORIZED  # a plugin's code for another packet [MQTT5-3.2.2-8]
    answer = connack(connection, reason, detail, properties)
    connection.output.send_packet(answer)
    connection.env.observer.connect_refused(connection, answer.reason, detail or why or reason.name.lower())
    connection.drop("connect_refused")


def connack(
    connection: ClientConnection, reason: ReasonCode, detail: str, properties: dict[str, Any] | None = None
) -> packets.Connack:
    """Return a CONNACK with this reason, for v3 clients with the return code that fits; count it as sent."""
    code = int(reason) if connection.version == 5 else int(connect_return_for(reason))
    extra = dict(properties or {})
    if detail and connection.problem_information and connection.version == 5:
        extra.setdefault("reason_string", detail)
    connection.env.counters.connack_sent(connection.version, code)
    return packets.Connack(False, code, (extra or None) if connection.version == 5 else None)


def refuse_verdict(connection: ClientConnection, verdict: Refuse) -> None:
    """A plugin refused a client: answer 4 for wrong credentials, else 5; to v5 0x86, or the code of the plugin."""
    if connection.version == 5:
        code = verdict.reason_code or ReasonCode.BAD_USER_NAME_OR_PASSWORD
        refuse(connection, ReasonCode(code), "", dict(verdict.properties), verdict.reason)
    elif verdict.reason == "invalid_credentials" or (verdict is EXHAUSTED and connection.username is not None):
        # an unknown user and a wrong password get the same answer, so that no client finds out which accounts exist
        refuse(connection, ReasonCode.BAD_USER_NAME_OR_PASSWORD, verdict.reason)
    else:
        refuse(connection, ReasonCode.NOT_AUTHORIZED, verdict.reason)


def too_many_logins(connection: ClientConnection) -> bool:
    """True if so many logins with this user name from this address have failed that no plugin is asked now."""
    most, user = connection.env.options.max_failed_logins, connection.username
    if not most or user is None:
        return False
    return connection.services.failed_logins.too_many(connection.peer[0], user, most, connection.env.now)


def count_refused_login(connection: ClientConnection, verdict: Refuse) -> None:
    """Count a login that a plugin has refused. An error of the plugin says nothing about the client."""
    if connection.username is not None and verdict is not BROKEN:
        connection.services.failed_logins.failed(connection.peer[0], connection.username, connection.env.now)


def refuse_malformed(connection: ClientConnection, error: WireError) -> None:
    """The first packet is malformed: answer CONNACK 1 to an unknown version [MQTT-3.1.2-2], the reason to v5."""
    if error.reason == ReasonCode.UNSUPPORTED_PROTOCOL_VERSION:
        connection.output.version = 4
        refuse(connection, error.reason, error.detail)
    elif connection.decoder.version == 5:
        connection.output.version = 5
        refuse(connection, error.reason, error.detail)
    else:
        connection.env.observer.connect_refused(connection, 0, error.detail)
        connection.drop(error.reason.name.lower())


def refuse_publish(
    connection: ClientConnection, qos: int, packet_id: int, reason: ReasonCode, properties: dict[str, Any] | None = None
) -> None:
    """Answer a PUBLISH that is not accepted: v5 gets the reason, v3 a normal acknowledgement, QoS 0 nothing."""
    if qos == 0:
        return
    kind = packets.Puback if qos == 1 else packets.Pubrec
    code = reason if connection.version == 5 else 0
    shown = properties if connection.version == 5 and connection.problem_information else None  # [MQTT5-3.1.2-29]
    answer = kind(packet_id, code, shown or None)
    connection.acks.reply(lambda: connection.output.send_packet(answer), False)


def publish_refused(connection: ClientConnection, packet: packets.Publish, verdict: Refuse) -> None:
    """A plugin forbids a PUBLISH: answer it, or close the connection, by protocol version [MQTT-3.3.5-2]."""
    connection.env.counters.publish_auth_error[connection.version == 5] += 1
    connection.env.observer.denied(connection, "publish", packet.topic)
    close_v3 = connection.env.options.disconnect_on_unauthorized_publish_v3
    if connection.version == 4 or (connection.version == 3 and close_v3):
        connection.drop("not_authorized")
        return
    code = verdict.reason_code or ReasonCode.NOT_AUTHORIZED
    refuse_publish(connection, packet.qos, packet.packet_id, ReasonCode(code), dict(verdict.properties))


def give_up(connection: ClientConnection, accepted: int, detail: str) -> None:
    """Close a connection whose answers to these operations (bits) must not leave. It has sent nothing since then.

    A client that waits for CONNACK gets one with a reason, as its first packet [MQTT-3.2.0-1] [MQTT5-3.2.0-1].
    """
    if connection.closed:
        return
    connection.output.discard()
    if accepted & REGISTER:
        connection.output.send_packet(connack(connection, ReasonCode.SERVER_UNAVAILABLE, detail))
        connection.drop("server_unavailable", False, detail)
    else:
        connection.disconnect(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, detail, LEASE_LOST)

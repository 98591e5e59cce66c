"""Answers with a reason: how each version learns that its CONNECT or PUBLISH is not accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...mqtt import packets
from ...mqtt.errors import WireError
from ...mqtt.reasons import ALLOWED, ReasonCode, connect_return_for
from ..plugins.hooks import EXHAUSTED, Refuse

if TYPE_CHECKING:
    from .connection import ClientConnection


QUEUE_UNREADABLE = "the broker cannot read the queue of this session"
"""What a client is told whose messages the message store does not give back."""


def refuse(
    front: ClientConnection, reason: ReasonCode, detail: str, properties: dict[str, Any] | None = None, why: str = ""
) -> None:
    """Answer CONNACK with this reason and close [MQTT-3.2.2-5] [MQTT5-3.2.2-7].

    `detail` is for the client and the log, `why` stands in the log where there is no detail.
    """
    if front.closed:
        return
    if reason not in ALLOWED["Connack"]:
        reason = ReasonCode.NOT_AUTHORIZED  # a plugin's code for another packet [MQTT5-3.2.2-8]
    answer = connack(front, reason, detail, properties)
    front.send_packet(answer)
    front.node.connect_refused(front, answer.reason, detail or why or reason.name.lower())
    front.drop("connect_refused")


def connack(
    front: ClientConnection, reason: ReasonCode, detail: str, properties: dict[str, Any] | None = None
) -> packets.Connack:
    """A CONNACK with this reason in the words of the client's version, counted as sent."""
    code = int(reason) if front.version == 5 else int(connect_return_for(reason))
    extra = dict(properties or {})
    if detail and front.problem_information and front.version == 5:
        extra.setdefault("reason_string", detail)
    front.node.counters.connack_sent(front.version, code)
    return packets.Connack(False, code, (extra or None) if front.version == 5 else None)


def refuse_verdict(front: ClientConnection, verdict: Refuse) -> None:
    """A plugin said no: 4 for wrong credentials, 5 for all else; v5 0x86 unless the plugin names a code."""
    if front.version == 5:
        code = verdict.reason_code or ReasonCode.BAD_USER_NAME_OR_PASSWORD
        refuse(front, ReasonCode(code), "", dict(verdict.properties), verdict.reason)
    elif verdict.reason == "invalid_credentials" or (verdict is EXHAUSTED and front.username is not None):
        # a user that no plugin knows and a wrong password have one answer: nobody finds out who has an account
        refuse(front, ReasonCode.BAD_USER_NAME_OR_PASSWORD, verdict.reason)
    else:
        refuse(front, ReasonCode.NOT_AUTHORIZED, verdict.reason)


def refuse_malformed(front: ClientConnection, error: WireError) -> None:
    """The first packets broke the rules. A version nobody speaks gets CONNACK 1 [MQTT-3.1.2-2]; else v5 is told why."""
    if error.reason == ReasonCode.UNSUPPORTED_PROTOCOL_VERSION:
        front.version = 4
        refuse(front, error.reason, error.detail)
    elif front.decoder.version == 5:
        front.version = 5
        refuse(front, error.reason, error.detail)
    else:
        front.node.connect_refused(front, 0, error.detail)
        front.drop(error.reason.name.lower())


def refuse_publish(
    front: ClientConnection, qos: int, packet_id: int, reason: ReasonCode, properties: dict[str, Any] | None = None
) -> None:
    """Answer a PUBLISH that is not taken: v5 gets the reason, v3 an answer as if all was well, QoS 0 nothing."""
    if qos == 0:
        return
    kind = packets.Puback if qos == 1 else packets.Pubrec
    code = reason if front.version == 5 else 0
    shown = properties if front.version == 5 and front.problem_information else None  # [MQTT5-3.1.2-29]
    answer = kind(packet_id, code, shown or None)
    front.reply(lambda: front.send_packet(answer), False)


def publish_refused(front: ClientConnection, packet: packets.Publish, verdict: Refuse) -> None:
    """Not authorised: what each version gets to see [MQTT-3.3.5-2]."""
    front.node.counters.publish_auth_error[front.version == 5] += 1
    front.node.denied(front, "publish", packet.topic)
    close_v3 = front.node.options.disconnect_on_unauthorized_publish_v3
    if front.version == 4 or (front.version == 3 and close_v3):
        front.drop("not_authorized")
        return
    code = verdict.reason_code or ReasonCode.NOT_AUTHORIZED
    refuse_publish(front, packet.qos, packet.packet_id, ReasonCode(code), dict(verdict.properties))

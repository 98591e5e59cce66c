"""Enhanced authentication of v5: AUTH exchanges at CONNECT and later (MQTT 5.0 section 4.12, the hook `on_auth_m5`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...mqtt import packets
from ...mqtt.reasons import FROM_SERVER, ReasonCode
from ..plugins.hooks import Refuse, Verdict
from .refusal import refuse

if TYPE_CHECKING:
    from .connection import ClientConnection


def begin(front: ClientConnection, properties: dict[str, Any], then: Callable[[ClientConnection], None]) -> None:
    """CONNECT named a method: some plugin must know it, or the answer is 0x8C (MQTT 5.0 section 4.12)."""
    if not front.node.hooks.has("on_auth_m5"):
        refuse(front, ReasonCode.BAD_AUTHENTICATION_METHOD, "no plugin knows this authentication method")
        return
    front.auth_method = properties["authentication_method"]
    front.authenticating = True
    front.when_authenticated = then
    _ask(front, properties)


def _ask(front: ClientConnection, properties: dict[str, Any]) -> None:
    question = front.node.hooks.ask("on_auth_m5", front.username, front.subscriber, properties)
    front.decide(question, lambda verdict: _answered(front, verdict))


def auth(front: ClientConnection, packet: packets.Auth) -> None:
    """AUTH from the client: the next step of an exchange, or the begin of a re-authentication."""
    front.node.counters.auth_received(packet.reason)
    properties = packet.properties or {}
    begun = front.authenticating
    wanted = ReasonCode.CONTINUE_AUTHENTICATION if begun else ReasonCode.RE_AUTHENTICATE
    if front.auth_method is None or properties.get("authentication_method") != front.auth_method:
        # [MQTT5-4.12.0-6] [MQTT5-4.12.1-1]
        _fail(front, ReasonCode.PROTOCOL_ERROR, "AUTH with another authentication method than CONNECT")
        return
    if packet.reason != wanted:
        _fail(front, ReasonCode.PROTOCOL_ERROR, "AUTH with a reason code that does not fit the exchange")
        return
    front.authenticating = True
    front.cancel_timer("connect")
    _ask(front, properties)


def _fail(front: ClientConnection, reason: ReasonCode, detail: str) -> None:
    if front.session is None:
        refuse(front, reason, detail)
    else:
        # a plugin may not know that this DISCONNECT is no CONNACK [MQTT5-3.14.2-1]
        front.disconnect(reason if reason in FROM_SERVER["Disconnect"] else ReasonCode.NOT_AUTHORIZED, detail)


def _answered(front: ClientConnection, verdict: Verdict) -> None:
    if isinstance(verdict, Refuse):
        _fail(front, ReasonCode(verdict.reason_code or ReasonCode.NOT_AUTHORIZED), verdict.reason)
        return
    modifiers = dict(verdict.modifiers)
    properties = dict(modifiers.get("properties", {}))
    if not front.problem_information:  # [MQTT5-3.1.2-29]
        for name in ("reason_string", "user_property"):
            properties.pop(name, None)
    properties["authentication_method"] = front.auth_method  # [MQTT5-4.12.0-5]
    if modifiers.get("reason_code") == ReasonCode.CONTINUE_AUTHENTICATION:
        front.send_packet(packets.Auth(ReasonCode.CONTINUE_AUTHENTICATION, properties))
        front.node.counters.auth_sent(ReasonCode.CONTINUE_AUTHENTICATION)
        if front.session is None:
            front.await_client()
        return
    front.authenticating = False
    front.username = modifiers.get("username", front.username)
    if front.session is not None:
        front.send_packet(packets.Auth(ReasonCode.SUCCESS, properties))
        front.node.counters.auth_sent(ReasonCode.SUCCESS)
        return
    front.modifiers["properties"] = properties
    assert front.when_authenticated is not None
    front.when_authenticated(front)

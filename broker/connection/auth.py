"""Enhanced authentication of v5: AUTH exchanges at CONNECT and later (MQTT 5.0 section 4.12, the hook `on_auth_m5`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...mqtt import packets
from ...mqtt.reasons import FROM_SERVER, ReasonCode
from ..plugins.hooks import Refuse, Verdict
from .connection import ClientConnection
from .refusal import TOO_MANY_LOGINS, count_refused_login, refuse, too_many_logins


def begin(connection: ClientConnection, properties: dict[str, Any], then: Callable[[], None]) -> None:
    """Start the authentication that CONNECT asks for; without a plugin the answer is 0x8C (MQTT 5.0 section 4.12).

    If the listener names plugins that authenticate, only these are asked, as about a password.
    """
    if not connection.env.hooks.has("on_auth_m5", _chain(connection)):
        refuse(connection, ReasonCode.BAD_AUTHENTICATION_METHOD, "no plugin knows this authentication method")
        return
    connection.auth.method = properties["authentication_method"]
    connection.decoder.go_on()  # AUTH packets follow
    connection.auth.begun = True
    connection.auth.then = then
    _ask(connection, properties)


def _ask(connection: ClientConnection, properties: dict[str, Any]) -> None:
    if too_many_logins(connection):
        _fail(connection, ReasonCode.CONNECTION_RATE_EXCEEDED, TOO_MANY_LOGINS)
        return
    arguments = (connection.username, connection.subscriber, properties)
    question = connection.env.hooks.ask("on_auth_m5", *arguments, chain=_chain(connection))
    connection.flow.decide(question, lambda verdict: _answered(connection, verdict))


def _chain(connection: ClientConnection) -> tuple[str, ...] | None:
    return connection.origin.listener.auth_plugins or None


def auth(connection: ClientConnection, packet: packets.Auth) -> None:
    """AUTH from the client: the next step of an exchange, or the start of a re-authentication."""
    connection.env.counters.auth_received(packet.reason)
    properties = packet.properties or {}
    begun = connection.auth.begun
    wanted = ReasonCode.CONTINUE_AUTHENTICATION if begun else ReasonCode.RE_AUTHENTICATE
    if connection.auth.method is None or properties.get("authentication_method") != connection.auth.method:
        # [MQTT5-4.12.0-6] [MQTT5-4.12.1-1]
        _fail(connection, ReasonCode.PROTOCOL_ERROR, "AUTH with another authentication method than CONNECT")
        return
    if packet.reason != wanted:
        _fail(connection, ReasonCode.PROTOCOL_ERROR, "AUTH with a reason code that does not fit the exchange")
        return
    connection.auth.begun = True
    connection.timers.cancel("connect")
    _ask(connection, properties)


def _fail(connection: ClientConnection, reason: ReasonCode, detail: str) -> None:
    if connection.session is None:
        refuse(connection, reason, detail)
    else:
        # a plugin may give a reason code that is valid in CONNACK only [MQTT5-3.14.2-1]
        connection.disconnect(reason if reason in FROM_SERVER["Disconnect"] else ReasonCode.NOT_AUTHORIZED, detail)


def _answered(connection: ClientConnection, verdict: Verdict) -> None:
    if isinstance(verdict, Refuse):
        count_refused_login(connection, verdict)
        _fail(connection, ReasonCode(verdict.reason_code or ReasonCode.NOT_AUTHORIZED), verdict.reason)
        return
    modifiers = dict(verdict.modifiers)
    properties = dict(modifiers.get("properties", {}))
    if not connection.problem_information:  # [MQTT5-3.1.2-29]
        for name in ("reason_string", "user_property"):
            properties.pop(name, None)
    properties["authentication_method"] = connection.auth.method  # [MQTT5-4.12.0-5]
    if modifiers.get("reason_code") == ReasonCode.CONTINUE_AUTHENTICATION:
        connection.output.send_packet(packets.Auth(ReasonCode.CONTINUE_AUTHENTICATION, properties))
        connection.env.counters.auth_sent(ReasonCode.CONTINUE_AUTHENTICATION)
        if connection.session is None:
            connection.await_client()
        return
    connection.auth.begun = False
    connection.username = modifiers.get("username", connection.username)
    connection.publishing.permitted.clear()  # these answers may be for another user
    session = connection.session
    if session is not None:
        if session.username != connection.username:
            session.username = connection.username
            session.save()
        connection.output.send_packet(packets.Auth(ReasonCode.SUCCESS, properties))
        connection.env.counters.auth_sent(ReasonCode.SUCCESS)
        return
    connection.modifiers["properties"] = properties
    assert connection.auth.then is not None
    connection.auth.then()

"""CONNACK with a reason: how each version learns that its CONNECT is not accepted (INV 6.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..mqtt import packets
from ..mqtt.errors import WireError
from ..mqtt.reasons import ALLOWED, ReasonCode, connect_return_for
from .plugins.hooks import Refuse

if TYPE_CHECKING:
    from .front import Front


def refuse(
    front: Front, reason: ReasonCode, detail: str, properties: dict[str, Any] | None = None, why: str = ""
) -> None:
    """Answer CONNACK with this reason and close [MQTT-3.2.2-5] [MQTT5-3.2.2-7].

    `detail` is for the client and the log, `why` stands in the log where there is no detail.
    """
    if front.closed:
        return
    if reason not in ALLOWED["Connack"]:
        reason = ReasonCode.NOT_AUTHORIZED  # a plugin's code for another packet [MQTT5-3.2.2-8]
    code = int(reason) if front.version == 5 else int(connect_return_for(reason))
    extra = dict(properties or {})
    if detail and front.problem_information and front.version == 5:
        extra.setdefault("reason_string", detail)
    front.send_packet(packets.Connack(False, code, (extra or None) if front.version == 5 else None))
    front.node.counters.connack_sent(front.version, code)
    front.node.log("info", f"{front.client_id or front.peer}: CONNECT refused: {detail or why}")
    front.drop("connect_refused")


def refuse_verdict(front: Front, verdict: Refuse) -> None:
    """A plugin said no: 4 for wrong credentials, 5 for all else; v5 0x86 unless the plugin names a code (INV 6.2)."""
    if front.version == 5:
        code = verdict.reason_code or ReasonCode.BAD_USER_NAME_OR_PASSWORD
        refuse(front, ReasonCode(code), "", dict(verdict.properties), verdict.reason)
    elif verdict.reason == "invalid_credentials":
        refuse(front, ReasonCode.BAD_USER_NAME_OR_PASSWORD, verdict.reason)
    else:
        refuse(front, ReasonCode.NOT_AUTHORIZED, verdict.reason)


def refuse_malformed(front: Front, error: WireError) -> None:
    """The first packets broke the rules. A version nobody speaks gets CONNACK 1 [MQTT-3.1.2-2]; else v5 is told why."""
    if error.reason == ReasonCode.UNSUPPORTED_PROTOCOL_VERSION:
        front.version = 4
        refuse(front, error.reason, error.detail)
    elif front.decoder.version == 5:
        front.version = 5
        refuse(front, error.reason, error.detail)
    else:
        front.drop(error.reason.name.lower())

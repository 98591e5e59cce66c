"""A client's half of a session (section 4.1): packet ids, unacknowledged packets, QoS 2 messages half received."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ..mqtt import packets
from ..mqtt.packets import Publish

LAST_ID = 65_535


@dataclass(frozen=True)
class Message:
    """A message as a client received it."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The payload as UTF-8. Raises UnicodeDecodeError."""
        return self.payload.decode()

    def json(self) -> Any:
        """The payload as JSON. Raises ValueError."""
        return json.loads(self.payload)


class SessionState:
    """The session state that a client keeps from one connection to the next.

    `outgoing`: packet id -> the unacknowledged PUBLISH, or the PUBREL that follows it. `half_received`: packet ids of
    QoS 2 messages whose PUBREL has not arrived. `aliases`: topic alias -> topic, of the present connection alone
    [MQTT5-3.3.2-7].
    """

    def __init__(self) -> None:
        self.outgoing: dict[int, Publish | packets.Pubrel] = {}
        self.half_received: set[int] = set()
        self.aliases: dict[int, str] = {}
        self._last_id = 0

    def new_id(self) -> int:
        """Returns a packet id that is not in use [MQTT-2.3.1-2] [MQTT5-2.2.1-3]. Raises OverflowError if all are."""
        for _ in range(LAST_ID):
            self._last_id = self._last_id % LAST_ID + 1
            if self._last_id not in self.outgoing:
                return self._last_id
        raise OverflowError("all packet ids are in use")

    def resume(self, present: bool) -> list[Publish | packets.Pubrel]:
        """Returns the packets to send again on a new connection, in order [MQTT-4.4.0-1]; none in a new session."""
        if not present:
            self.outgoing.clear()
            self.half_received.clear()
            return []
        for packet in self.outgoing.values():
            if isinstance(packet, Publish):
                packet.dup = True
        return list(self.outgoing.values())

    def accept(self, packet: Publish) -> Message | None:
        """Returns the message of a PUBLISH that has arrived, or None for a QoS 2 message that was given out before."""
        topic = self._topic(packet)
        if packet.qos == 2:
            if packet.packet_id in self.half_received:
                return None
            self.half_received.add(packet.packet_id)
        return Message(
            topic,
            packet.payload,
            packet.qos,
            packet.retain,
            packet.dup,
            packet.packet_id,
            dict(packet.properties or {}),
        )

    def _topic(self, packet: Publish) -> str:
        """Returns the topic of a PUBLISH, and remembers its alias."""
        alias = (packet.properties or {}).get("topic_alias")
        if alias is None:
            return packet.topic
        if packet.topic:
            self.aliases[alias] = packet.topic
        return self.aliases.get(alias, "")

    def answer(self, packet: packets.Packet) -> tuple[packets.Packet | None, tuple[int, int] | None]:
        """Handle an acknowledgement. Returns the answer to send, and (packet id, reason) if a publish is finished."""
        if isinstance(packet, packets.Puback):
            return None, self._finish(packet.packet_id, packet.reason)
        if isinstance(packet, packets.Pubrec):
            if packet.reason >= 0x80:
                return None, self._finish(packet.packet_id, packet.reason)
            release = packets.Pubrel(packet.packet_id)
            if packet.packet_id in self.outgoing:
                self.outgoing[packet.packet_id] = release
            return release, None
        if isinstance(packet, packets.Pubcomp):
            return None, self._finish(packet.packet_id, packet.reason)
        if isinstance(packet, packets.Pubrel):
            self.half_received.discard(packet.packet_id)
            return packets.Pubcomp(packet.packet_id), None
        return None, None

    def _finish(self, packet_id: int, reason: int) -> tuple[int, int] | None:
        return (packet_id, reason) if self.outgoing.pop(packet_id, None) is not None else None

"""The publishing half of a model client: a strict sender of QoS 1 and 2 by sections 4.3 and 4.4 of MQTT 5.0.

It takes the lowest free packet id, so that ids are reused soon. If the node resumes its session, it sends unanswered
packets again in the same order. If not, it forgets them: the node may or may not have them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...mqtt import packets
from ..engine.pipe import Mark
from ..history import FIRST, Attempt, History

Send = Callable[..., None]


class Flight:
    """One unfinished PUBLISH. `released`: PUBREC has arrived and PUBREL is due."""

    __slots__ = ("attempt", "packet", "released")

    def __init__(self, attempt: Attempt, packet: packets.Publish) -> None:
        self.attempt = attempt
        self.packet = packet
        self.released = False


class Sender:
    """Publishes as `writer`. `send` sends packets on the present connection; `limit` is the node's receive maximum."""

    def __init__(self, history: History, writer: str, send: Send) -> None:
        self._history = history
        self._writer = writer
        self._send = send
        self._counter = 0
        self.limit = 10
        self._node = FIRST
        self._node_changes = 0
        self.open: dict[int, Flight] = {}

    def publish(self, topic: str, qos: int, retain: bool = False, expiry_s: int = 0, size: int = 0) -> bool:
        """Publish the next message. Returns False if the window is full."""
        packet_id = 0
        if qos:
            if len(self.open) >= self.limit:
                return False
            packet_id = next(number for number in range(1, 65536) if number not in self.open)
        self._counter += 1
        history = self._history
        key = f"{self._writer}-{self._counter}"
        attempt = Attempt(key, self._writer, self._counter, topic, qos, retain, expiry_s, history.next(), history.now())
        attempt.node, attempt.node_changes = self._node, self._node_changes
        history.attempts[key] = attempt
        properties = {"message_expiry_interval": expiry_s} if expiry_s else None
        packet = packets.Publish(topic, payload(key, size), qos, retain, False, packet_id, properties)
        if qos:
            self.open[packet_id] = Flight(attempt, packet)
        self._send(packet)
        return True

    def go_to(self, node: str) -> None:
        """Note that the next connection goes to this node."""
        if node != self._node:
            self._node = node
            self._node_changes += 1

    def resume(self) -> None:
        """Send unanswered packets of a resumed session again, in the same order [MQTT-4.4.0-1]."""
        again: list[Any] = []
        for packet_id, flight in self.open.items():
            if flight.released:
                again.append(packets.Pubrel(packet_id))
            else:
                flight.packet.dup = True
                self._resent(flight.attempt)
                again.append(flight.packet)
        if again:
            self._send(*again)

    def _resent(self, attempt: Attempt) -> None:
        attempt.resent += 1
        if attempt.resent_to is None or attempt.resent_to[0] != self._node:
            attempt.resent_to = (self._node, self._history.now())

    def forget(self) -> None:
        """Forget all unfinished messages: the session has ended."""
        self.open.clear()

    def puback(self, packet: packets.Puback, mark: Mark) -> None:
        """Handle PUBACK: the message is finished."""
        flight = self.open.get(packet.packet_id)
        if flight is None or flight.packet.qos != 1:
            self._history.problem(f"{self._writer} got PUBACK {packet.packet_id}, but no message waits for it")
            return
        del self.open[packet.packet_id]
        self._answered(flight.attempt, packet.reason, mark)

    def pubrec(self, packet: packets.Pubrec, mark: Mark) -> None:
        """Handle PUBREC: send PUBREL. With an error code the message is refused and finished."""
        flight = self.open.get(packet.packet_id)
        if flight is None or flight.packet.qos != 2:
            self._history.problem(f"{self._writer} got PUBREC {packet.packet_id}, but no message waits for it")
            return
        if not flight.released:
            self._answered(flight.attempt, packet.reason, mark)
        if packet.reason >= 0x80:
            del self.open[packet.packet_id]
            return
        flight.released = True
        self._send(packets.Pubrel(packet.packet_id))

    def pubcomp(self, packet: packets.Pubcomp) -> None:
        """Handle PUBCOMP: the message is finished."""
        flight = self.open.get(packet.packet_id)
        if flight is None or not flight.released:
            self._history.problem(f"{self._writer} got PUBCOMP {packet.packet_id}, but no message waits for it")
            return
        del self.open[packet.packet_id]

    def _answered(self, attempt: Attempt, reason: int, mark: Mark) -> None:
        history = self._history
        if reason >= 0x80:
            attempt.refused = history.next()
        else:
            attempt.acked = history.next()
            attempt.acked_at = history.now()
            attempt.mark, attempt.without_lease = mark[0], mark[2]


def payload(key: str, size: int = 0) -> bytes:
    """Returns the payload for a message's key."""
    return key.encode() + b"|" + b"." * size


def key_of(data: bytes) -> str:
    """Returns the message's key from a payload."""
    return data.partition(b"|")[0].decode()

"""The subscribing half of a model client: a strict receiver of QoS 1 and 2 by section 4.3 of MQTT 5.0.

It passes a QoS 2 message to the application if its packet id is free, and drops it if the id is in use: a wrong packet
id has the same effect as in a real client. Answers leave in the order of the messages [MQTT-4.6.0-2], sometimes late.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...mqtt import packets
from ..history import Delivery, History, IdReuse
from .sender import key_of

Later = Callable[[float, Callable[[], None]], object]


class Receiver:
    """Receives for `client`.

    `held` maps the QoS 2 packet ids that wait for PUBREL to their messages. It belongs to the session and survives
    connections. `answer` sends a packet, if the connection of the message is still the present one.
    """

    def __init__(self, history: History, client: str, later: Later, answer: Callable[[int, Any], bool]) -> None:
        self._history = history
        self._client = client
        self._later = later
        self._answer = answer
        self.epoch = 0
        self.held: dict[int, str] = {}
        self.window = 65535
        self.delay_s = 0.0
        self._connection = 0
        self._unanswered: dict[int, str] = {}
        self._seen: set[int] = set()
        self._owed = 0
        self._due_s = 0.0

    def begin(self, connection: int) -> None:
        """Begin a new connection, without unanswered messages."""
        self._connection = connection
        self._unanswered.clear()
        self._seen.clear()
        self._owed = 0
        self._due_s = 0.0

    def forget(self) -> None:
        """Forget the packet ids of a session that has ended."""
        self.held.clear()

    def publish(self, packet: packets.Publish, sent_at: float) -> None:
        """Record and answer a PUBLISH that the node wrote at `sent_at` (true time in s)."""
        key = key_of(packet.payload)
        first = True
        packet_id = packet.packet_id
        if packet.qos:
            self._check_id(packet_id, key, packet.dup)
        if packet.qos == 2:
            first = packet_id not in self.held
            self.held.setdefault(packet_id, key)
        history = self._history
        history.deliveries.append(
            Delivery(
                key,
                self._client,
                self.epoch,
                self._connection,
                history.next(),
                sent_at,
                packet.qos,
                packet.dup,
                packet.retain,
                packet_id,
                first,
                packet.topic,
            )
        )
        if packet.qos == 1:
            self._owe(packets.Puback(packet_id), packet_id)
        elif packet.qos == 2:
            self._owe(packets.Pubrec(packet_id), 0)

    def pubrel(self, packet: packets.Pubrel) -> None:
        """Release the packet id of a PUBREL, and answer it."""
        self.held.pop(packet.packet_id, None)
        self._owe(packets.Pubcomp(packet.packet_id), packet.packet_id)

    def _check_id(self, packet_id: int, key: str, dup: bool) -> None:
        """Record a problem if the packet id is in use for another message, or the window is exceeded."""
        for known in (self.held.get(packet_id), self._unanswered.get(packet_id)):
            if known is not None and known != key:
                text = f"{self._client}: packet id {packet_id} came with {key} while it stands for {known}"
                self._history.ids.append(IdReuse(self._client, self._connection, text))
        if dup and packet_id in self._seen:
            return  # a repetition on this connection: its answer may be in flight, so it must not count in the window
        self._seen.add(packet_id)
        self._unanswered[packet_id] = key
        if len(self._unanswered) > self.window:
            self._history.problem(f"{self._client}: {len(self._unanswered)} in flight, window {self.window}")

    def _owe(self, packet: Any, finishes: int) -> None:
        if self.delay_s == 0.0 and not self._owed:
            self._give(self._connection, packet, finishes)
            return
        self._owed += 1
        now = self._history.now()
        self._due_s = max(self._due_s, now + self.delay_s)
        self._later(self._due_s - now, partial(self._give_late, self._connection, packet, finishes))

    def _give_late(self, connection: int, packet: Any, finishes: int) -> None:
        if connection == self._connection:
            self._owed -= 1
            self._give(connection, packet, finishes)

    def _give(self, connection: int, packet: Any, finishes: int) -> None:
        if self._answer(connection, packet) and finishes:
            self._unanswered.pop(finishes, None)

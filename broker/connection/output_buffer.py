"""The output of a connection: one list of frames per loop turn, one write for all of them.

This is the most important optimisation: a write per message costs 3 to 10 times more (docs/performance.md). A message
keeps its last encoding, so a fan-out encodes once per (version, QoS, retain).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ...mqtt.encoder import PACKET_IDS, encode
from ..environment import Environment
from ..queues.message import Message
from ..queues.queue import Entry
from . import publish_frames
from .publish_frames import ReceivingSession
from .transport import ClientTransport

RETAIN_FRAME = 8
VOID = 16
"""In `OutputBuffer.accepted`: the acknowledgements must not leave, so nothing leaves until the connection is closed."""
LARGE = 65536
"""A piece of output of this many bytes or more is written separately, not joined with others."""

_PUBREL = b"\x62\x02"


class Owner(Protocol):
    """The client connection that the output belongs to."""

    client_id: str

    @property
    def session(self) -> ReceivingSession | None:
        """The session; None before CONNECT is accepted and after the connection is closed."""
        ...

    @property
    def number(self) -> int:
        """The number of the connection, unique in this start of the node."""
        ...

    @property
    def connected(self) -> bool:
        """True if CONNACK was sent, and the connection is not closed."""
        ...

    @property
    def closed(self) -> bool:
        """True after the broker has closed the connection."""
        ...

    def unsendable(self, packet: Any) -> None:
        """The packet is larger than the client accepts; it is not sent."""
        ...

    def not_taken(self, size: int) -> None:
        """The output writes `size` bytes of answers although the transport's buffer is full."""
        ...


class Flusher:
    """The outputs of a node that have something to write at the end of the turn."""

    def __init__(self, env: Environment) -> None:
        self._after_turn = env.after_turn
        self._dirty: list[OutputBuffer] = []

    def touch(self, output: OutputBuffer) -> None:
        """Flush this output at the end of the turn."""
        dirty = self._dirty
        dirty.append(output)
        if len(dirty) == 1:
            self._after_turn(self.flush)

    def flush(self) -> None:
        """Flush all these outputs."""
        dirty, self._dirty = self._dirty, []
        for output in dirty:
            output.flush()


class OutputBuffer:
    """The sending half of a client connection.

    `is_writable` is False before CONNACK, while the transport's buffer is full, and once a turn has gathered more than
    `out_limit` bytes; the queue then keeps its messages. `accepted` has the operations (bits) that this turn's output
    acknowledges for the first time.
    """

    __slots__ = (
        "_flusher",
        "accepted",
        "acked",
        "aliases_out",
        "env",
        "frame_key",
        "is_writable",
        "out",
        "out_limit",
        "out_size",
        "owner",
        "packet_limit",
        "sent",
        "slow_send",
        "topic_alias_limit",
        "transport",
        "transport_paused",
        "version",
    )

    def __init__(self, env: Environment, flusher: Flusher, transport: ClientTransport, owner: Owner) -> None:
        self.env = env
        self.transport = transport
        self._flusher = flusher
        self.owner = owner
        self.version = 4
        self.out: list[bytes] = []
        self.out_size = 0
        self.out_limit = env.options.out_buffer_bytes
        self.sent = 0
        self.accepted = 0
        self.acked: list[Callable[[str], None]] = []
        """Called when this turn's output leaves, with the right by which it may (H-04): they write the event log's rows
        about its answers, or cancel a will."""
        self.is_writable = False
        self.transport_paused = False
        self.frame_key = 0
        self.slow_send = False
        self.packet_limit = 0
        self.topic_alias_limit = 0
        self.aliases_out: dict[str, int] = {}

    @property
    def session(self) -> ReceivingSession | None:
        """The session whose messages leave here."""
        return self.owner.session

    def write(self, frame: bytes) -> None:
        """Add a frame to this turn's output."""
        out = self.out
        if not out:
            self._flusher.touch(self)
        out.append(frame)

    def send_packet(self, packet: Any) -> None:
        """Encode and send a packet that is not on the hot path."""
        if self.owner.closed:
            return
        frame = encode(packet, self.version, self.packet_limit or None)
        if frame is None:
            self.owner.unsendable(packet)
        else:
            self.write(frame)

    def send_qos0(self, message: Message, retain: bool, identifiers: tuple[int, ...]) -> None:
        """Send a QoS 0 message."""
        key = self.frame_key | RETAIN_FRAME if retain else self.frame_key
        if (message.frame_key != key or identifiers or self.slow_send) and not publish_frames.prepare_qos0(
            self, message, retain, identifiers, key
        ):
            return
        out = self.out
        if not out:
            self._flusher.touch(self)
        head = message.head
        out.append(head)
        self.sent += 1
        self.out_size += len(head)
        if self.out_size > self.out_limit:
            self.is_writable = False
        if self.env.events.messages:
            self.env.observer.message_sent(self.owner, message, 0, 0, False)

    def send(self, entry: Entry) -> None:
        """Send a QoS 1 or 2 message, or send it again."""
        message = entry.message
        assert message is not None
        key = self.frame_key | entry.qos
        if entry.retain:
            key |= RETAIN_FRAME
        if (
            message.frame_key != key or entry.dup or entry.identifiers or self.slow_send
        ) and not publish_frames.prepare(self, entry, message, key):
            return
        out = self.out
        if not out:
            self._flusher.touch(self)
        tail = message.tail
        if len(tail) < LARGE:
            out.append(message.head + PACKET_IDS[entry.seq % 65535 + 1] + tail)
        else:
            out.append(message.head + PACKET_IDS[entry.seq % 65535 + 1])
            out.append(tail)
        entry.sent_at = self.env.now
        self.sent += 1
        self.out_size += len(tail) + 8
        if self.out_size > self.out_limit:
            self.is_writable = False
        if self.env.events.messages:
            self.env.observer.message_sent(self.owner, message, entry.packet_id, entry.qos, entry.dup)

    def send_pubrel(self, entry: Entry) -> None:
        """PUBREL [MQTT-4.3.3-1]."""
        self.write(_PUBREL + PACKET_IDS[entry.packet_id])
        if self.env.events.messages and not entry.left_out:
            self.env.observer.delivery_released("dlv.rel", self.owner, entry.packet_id)
        self.env.counters.pubrel_sent += 1

    def flush(self) -> None:
        """Write the output of this turn; called once per turn."""
        out = self.out
        if not out:
            return
        self.out = []
        if self.transport_paused:
            self.owner.not_taken(sum(map(len, out)))
        env = self.env
        if self.accepted:
            accepted, self.accepted = self.accepted, 0
            if accepted & VOID or not env.cluster.may_acknowledge(self.owner, accepted, out):
                self.accepted = VOID
                self.acked.clear()
                return
        if self.acked:
            acked, self.acked = self.acked, []
            right = env.cluster.right()
            for write_row in acked:
                write_row(right)
        if self.out_size < LARGE:
            self.transport.write(out[0] if len(out) == 1 else b"".join(out))
        else:
            _write_pieces(self.transport.write, out)
        env.counters.publish_sent[self.version == 5] += self.sent
        self.sent = 0
        self.out_size = 0
        if not self.is_writable and not self.transport_paused:
            self.resume()

    def discard(self) -> None:
        """Drop the output of this turn, acknowledgements included."""
        self.accepted = 0
        self.acked.clear()
        self.out.clear()

    def resume(self) -> None:
        """The connection has room again: let the queue send its waiting messages."""
        session = self.owner.session
        if session is not None and self.owner.connected:
            self.is_writable = True
            session.queue.pump()

    def writable(self, flag: bool) -> None:
        """The transport's buffer is full (False) or has room again (True)."""
        self.transport_paused = not flag
        if not flag:
            self.is_writable = False
        else:
            self.env.tick()
            self.resume()


def _write_pieces(write: Callable[[bytes], None], out: list[bytes]) -> None:
    small: list[bytes] = []
    for piece in out:
        if len(piece) < LARGE:
            small.append(piece)
            continue
        if small:
            write(b"".join(small))
            small.clear()
        write(piece)
    if small:
        write(b"".join(small))

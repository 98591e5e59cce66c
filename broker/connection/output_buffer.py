"""What leaves a connection: one list of frames per loop turn, one write for all of them.

An optimisation that is the base of all speed here: a write per message costs 3 to 10 times more (docs/performance.md).
The encoding of a message is remembered in the message, so a fan-out encodes once per (version, QoS, retain).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...mqtt.encoder import PACKET_IDS, encode
from ..queues.message import Message
from ..queues.queue import Entry
from . import publish_frames
from .transport import ClientTransport

if TYPE_CHECKING:
    from ..node import Node
    from ..sessions.session import Session

RETAIN_FRAME = 8
VOID = 16
"""In `OutputBuffer.promised`: what was promised may not leave, so nothing else does before the connection is ended."""
LARGE = 65536
"""Bytes from which a piece of output is written by itself instead of being joined."""

_PUBREL = b"\x62\x02"


class OutputBuffer:
    """The sending half of a front.

    `is_writable` is False before CONNACK, while the transport's buffer is full, and once a turn has gathered more than
    `out_limit` bytes; the queue then keeps what it has.
    """

    __slots__ = (
        "acked",
        "aliases_out",
        "client_packet_limit",
        "closed",
        "connected",
        "frame_key",
        "is_writable",
        "link",
        "node",
        "out",
        "out_limit",
        "out_size",
        "promised",
        "sent",
        "session",
        "slow_send",
        "topic_alias_limit",
        "transport_paused",
        "version",
    )

    def __init__(self, node: Node, link: ClientTransport) -> None:
        self.node = node
        self.link = link
        self.version = 4
        self.session: Session | None = None
        self.closed = False
        self.connected = False
        self.out: list[bytes] = []
        self.out_size = 0
        self.out_limit = node.options.out_buffer_bytes
        self.sent = 0
        self.promised = 0
        self.acked: list[Message] = []
        """Messages whose acknowledgement is in this turn's output; only at level `message`."""
        self.is_writable = False
        self.transport_paused = False
        self.frame_key = 0
        self.slow_send = False
        self.client_packet_limit = 0
        self.topic_alias_limit = 0
        self.aliases_out: dict[str, int] = {}

    def write(self, frame: bytes) -> None:
        """Add a frame to this turn's output."""
        out = self.out
        if not out:
            self.node.touch(self)
        out.append(frame)

    def send_packet(self, packet: Any) -> None:
        """Encode and send a packet that is not on the hot path."""
        if self.closed:
            return
        frame = encode(packet, self.version, self.client_packet_limit or None)
        if frame is None:
            self.unsendable(packet)
        else:
            self.write(frame)

    def unsendable(self, packet: Any) -> None:
        """The packet is larger than the client takes; the front's part."""
        raise AssertionError("a front knows what to do")

    def send_qos0(self, message: Message, retain: bool, identifiers: tuple[int, ...]) -> None:
        """Send a QoS 0 message."""
        key = self.frame_key | RETAIN_FRAME if retain else self.frame_key
        if (message.frame_key != key or identifiers or self.slow_send) and not publish_frames.prepare_qos0(
            self, message, retain, identifiers, key
        ):
            return
        out = self.out
        if not out:
            self.node.touch(self)
        head = message.head
        out.append(head)
        self.sent += 1
        self.out_size += len(head)
        if self.out_size > self.out_limit:
            self.is_writable = False
        if self.node.events.messages:
            self.node.message_sent_qos0(self, message)

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
            self.node.touch(self)
        tail = message.tail
        if len(tail) < LARGE:
            out.append(message.head + PACKET_IDS[entry.seq % 65535 + 1] + tail)
        else:
            out.append(message.head + PACKET_IDS[entry.seq % 65535 + 1])
            out.append(tail)
        entry.sent_at = self.node.now
        self.sent += 1
        self.out_size += len(tail) + 8
        if self.out_size > self.out_limit:
            self.is_writable = False
        if self.node.events.messages:
            self.node.message_sent(self, entry)

    def send_pubrel(self, packet_id: int) -> None:
        """PUBREL [MQTT-4.3.3-1]."""
        self.write(_PUBREL + PACKET_IDS[packet_id])
        self.node.counters.pubrel_sent += 1

    def flush(self) -> None:
        """Write what this turn gathered; called once per turn by the node."""
        out = self.out
        if not out:
            return
        self.out = []
        if self.transport_paused:
            self.not_taken(sum(map(len, out)))
        if self.promised:
            promised, self.promised = self.promised, 0
            guard = self.node.guard
            if guard is not None and (promised & VOID or not guard(self, promised, out)):
                self.promised = VOID
                self.acked.clear()
                return
        if self.acked:
            self.node.messages_acked(self)
        if self.out_size < LARGE:
            self.link.write(out[0] if len(out) == 1 else b"".join(out))
        else:
            _write_pieces(self.link.write, out)
        counters = self.node.counters
        counters.publish_sent[self.version == 5] += self.sent
        self.sent = 0
        self.out_size = 0
        if not self.is_writable and not self.transport_paused:
            self.resume_sending()

    def not_taken(self, size: int) -> None:
        """So many bytes of answers go to a connection whose buffer is full; the front's part."""
        raise AssertionError("a front bounds them")

    def resume_sending(self) -> None:
        """The connection takes more: go on with what waits."""
        if self.session is not None and self.connected and not self.closed:
            self.is_writable = True
            self.session.queue.pump()

    def writable(self, flag: bool) -> None:
        """The transport's buffer is full (False) or has room again (True)."""
        self.transport_paused = not flag
        if not flag:
            self.is_writable = False
        else:
            self.node.tick()
            self.resume_sending()


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

"""Bytes -> packets, incrementally, for both roles: a server decodes what clients send, a client what servers send.

`Decoder.feed` takes received bytes and returns the complete packets, in one loop. PUBLISH and PUBACK are
read inside the loop by index arithmetic; topics are validated once per distinct topic of the process. One call decodes
a bounded number of packets; `more` is True if complete ones may be left for the next call.
"""

from __future__ import annotations

from sys import intern

from . import wire
from .bodies import FILTER_READERS, READERS
from .connect import parse_connect, parse_protocol
from .errors import MalformedPacket, ProtocolError, WireError
from .packets import Connect, Packet, Properties, Puback, Pubcomp, Publish, Pubrec, Pubrel, Subscribe, Unsubscribe, Will
from .properties import decode_properties
from .reasons import ReasonCode
from .topics import too_deep, valid_topic_name

CONNECT, PUBLISH, AUTH = 1, 3, 15
_NAMES = (
    *("reserved", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP"),
    *("SUBSCRIBE", "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH"),
)

_BOTH = {3, 4, 5, 6, 7}
_ACCEPTED = {
    "server": frozenset(_BOTH | {1, 8, 10, 12, 14, 15}),
    "client": frozenset(_BOTH | {2, 9, 11, 13, 14, 15}),
}
"""Role -> the packet types that the other side may send (section 2.1.2); DISCONNECT of a server only in 5.0."""

_FLAGS = (0, 0, 0, 0, 0, 0, 2, 0, 2, 0, 2, 0, 0, 0, 0, 0)
"""Packet type -> the flags of its fixed header (section 2.1.3)."""

_LENGTHS = {12: 0, 13: 0}
_LENGTHS_V3 = {2: 2, 4: 2, 5: 2, 6: 2, 7: 2, 11: 2, 12: 0, 13: 0, 14: 0}
"""Packet type -> its only remaining length."""

_FLAGS_UNUSED_31 = tuple(15 if flags == 0 else 9 for flags in _FLAGS)
"""Packet type -> the flags that MQTT 3.1 does not use there, section 2.1: DUP is used where the QoS is 1."""

_PUBLISH_QOS = tuple(
    (3 if first in (0x38, 0x39) else first >> 1 & 3) if first >> 4 == PUBLISH else -1 for first in range(256)
)
"""First byte -> QoS of the PUBLISH, 3 when its flags are illegal (QoS 3, or DUP with QoS 0), -1 for other packets."""

PACKETS_AT_ONCE = 256
STEP_BYTES = 8192
"""One `feed` of a server decodes packets until `PACKETS_AT_ONCE` are complete. It counts them after each `STEP_BYTES`
of input. So a call takes at most some milliseconds, and shorter input, the usual case, has no extra cost."""

WILL_BYTES = 2 * (2 + wire.MAX_LENGTH)
"""Most bytes of a will's topic and payload."""

_SHORT_ANSWERS: dict[int, type[Puback] | type[Pubrec] | type[Pubrel] | type[Pubcomp]] = {
    0x40: Puback,
    0x50: Pubrec,
    0x62: Pubrel,
    0x70: Pubcomp,
}
"""First byte -> the class of an answer that has only a packet identifier. Each QoS 2 message needs three."""

_STOPPED = 1 << 62
"""`Decoder._needed` of a decoder that has stopped: no peer sends so many bytes."""

TOPICS_KEPT = 32_768
TOPIC_BYTES_KEPT = 256
_topics: dict[bytes, str] = {}
"""Bytes of a topic -> its text, valid and interned. Bounded by count and length; a full cache is cleared."""


def learn_topic(raw: bytes) -> str:
    """Validate the topic name of a PUBLISH and cache its text. Raises `MalformedPacket`."""
    topic = wire.decode_utf8(raw, "the topic")
    if not valid_topic_name(topic):  # [MQTT-3.3.2-2] [MQTT-4.7.3-1] [MQTT5-3.3.2-2] [MQTT5-4.7.3-1]
        raise MalformedPacket("the topic of a PUBLISH is empty or contains a wildcard")
    if len(raw) <= TOPIC_BYTES_KEPT:
        if len(_topics) >= TOPICS_KEPT:
            _topics.clear()
        _topics[raw] = topic = intern(topic)
    return topic


class Decoder:
    """An incremental decoder for one connection.

    `role` is the receiver's: "server" or "client". A server's decoder learns `version` from the CONNECT; given a
    version it starts after the CONNECT. A client's decoder needs one. `max_packet_size` limits the remaining length in
    bytes, and may be changed at any time. `topic_depth` limits the levels of topics and filters, 0 for no limit.
    `max_connect_size` limits the remaining length of a CONNECT without topic and payload of its will, `max_filters` the
    filters of a SUBSCRIBE or UNSUBSCRIBE, 0 for no limit.

    After a bad packet `error` has the answer for the peer, and the decoder stops. While `more` is True complete packets
    may be left, and `feed(b"")` goes on. After a CONNECT `more` is always True, because the peer may send further
    packets only if the CONNECT is accepted.
    """

    __slots__ = (
        "_at_once",
        "_held",
        "_held_bytes",
        "_needed",
        "_overlong",
        "error",
        "max_connect_size",
        "max_filters",
        "max_packet_size",
        "more",
        "role",
        "stops",
        "topic_depth",
        "version",
    )

    def __init__(
        self,
        role: str = "server",
        version: int = 0,
        max_packet_size: int = 268_435_460,
        topic_depth: int = 0,
        max_connect_size: int = 0,
        max_filters: int = 0,
    ) -> None:
        if role not in _ACCEPTED or version not in (0, 3, 4, 5) or (role == "client" and not version):
            raise ValueError(f"no decoder for role {role!r} and version {version}")
        self.role = role
        self.version = version
        self.max_packet_size = max_packet_size
        self.topic_depth = topic_depth
        self.max_connect_size = max_connect_size
        self.max_filters = max_filters
        self.more = False
        self.stops = False
        self._at_once = PACKETS_AT_ONCE if role == "server" else 1 << 60
        self.error: WireError | None = None
        self._held: list[bytes] = []  # the chunks of an incomplete packet, joined once when it is complete
        self._held_bytes = 0
        self._needed = 0  # bytes that the incomplete packet needs before the next attempt to decode it
        self._overlong = False  # the remaining length of the CONNECT has more bytes than needed

    def feed(self, data: bytes) -> list[Packet]:
        """The packets that `data` completes, in order: all of them, or the first ones if `more` is True afterwards.

        If `data` has a bad packet, returns the packets before it.
        """
        packets: list[Packet] = []
        if self.error is not None:
            return packets
        if self._held:
            if data:
                self._held.append(data)
                self._held_bytes += len(data)
            if self._held_bytes < self._needed:
                return packets
            data = b"".join(self._held)
            self._held = []
        try:
            pos = self._decode(data, 0, packets)
            while not self._needed and len(packets) < self._at_once and type(packets[-1]) is not Connect:
                pos = self._decode(data, pos, packets)
        except WireError as error:
            self.error = error
            self.more = False
            return packets
        self.more = False
        if pos < len(data):
            self._held = [data[pos:]]
            self._held_bytes = len(data) - pos
            self.more = not self._needed
        return packets

    def go_on(self) -> None:
        """Decode what follows the CONNECT. Does nothing if the decoder has not stopped."""
        if self._needed == _STOPPED:
            self._needed = 0
            self.more = self._held_bytes > 0

    def take_rest(self) -> bytes:
        """Return the bytes that are not decoded, in order, and forget them."""
        rest = b"".join(self._held)
        self._held = [b""] if self._needed == _STOPPED else []
        self._held_bytes = 0
        self.more = False
        return rest

    # Measured with CPython 3.11, 200 packets in the buffer: 0.65 us for a QoS 0 PUBLISH of 100 bytes (0.70 in v5),
    # 0.82 us with QoS 1, 0.30 us for a PUBACK; each function call in the loop would cost 0.1 us or more.
    def _decode(self, data: bytes, pos: int, packets: list[Packet]) -> int:
        """Append the complete packets that begin within the next `STEP_BYTES`. Returns the position after them.

        It sets `_needed` if an incomplete packet, or no packet, begins there; else to 0.
        """
        end, version, depth = len(data), self.version, self.topic_depth
        append, topic_of, limit = packets.append, _topics.get, self.max_packet_size
        last = end if end - pos <= STEP_BYTES else pos + STEP_BYTES
        while pos + 1 < last:
            first, length, body = data[pos], data[pos + 1], pos + 2
            if length > 127:
                if body < end and 0 < data[body] < 128:  # two bytes, without the call: 0.9 us less
                    length = length & 127 | data[body] << 7
                    body += 1
                else:
                    length, body = self._long_length(data, pos, end)
                    if length < 0:
                        break
            stop = body + length
            if stop > end or length > limit:
                self._check_header(first, length)
                self._needed = stop - pos
                return pos
            if first == 0x40 and length == 2 and version:
                packet_id = data[body] << 8 | data[body + 1]
                if not packet_id:
                    raise MalformedPacket("packet identifier 0")  # [MQTT-2.3.1-1] [MQTT5-2.2.1-3]
                append(Puback(packet_id))
            elif (qos := _PUBLISH_QOS[first]) >= 0 and version:
                if qos == 3:
                    self._check_header(first, length)
                start = body + 2
                cut = start + (data[body] << 8 | data[body + 1]) if length > 2 else stop + 1
                if cut > stop:
                    raise MalformedPacket("the packet ends inside the topic")
                topic = topic_of(data[start:cut])
                if topic is None or (depth and topic.count("/") >= depth):
                    topic = self._check_topic(data[start:cut])
                packet_id = 0
                if qos:
                    cut += 2
                    if cut > stop:
                        raise MalformedPacket("the packet ends inside the packet identifier")
                    packet_id = data[cut - 2] << 8 | data[cut - 1]
                    if not packet_id:
                        raise MalformedPacket("packet identifier 0")  # [MQTT-2.3.1-1] [MQTT5-2.2.1-3]
                properties = None
                if version == 5:
                    if cut < stop and not data[cut] and topic:
                        cut += 1
                    else:
                        properties, cut = self._publish_properties(data, cut, stop, topic)
                if first == 0x30 and properties is None:  # five arguments less: 0.1 us
                    append(Publish(topic, data[cut:stop]))
                else:
                    append(Publish(topic, data[cut:stop], qos, first & 1 == 1, first & 8 == 8, packet_id, properties))
            else:
                packet = self._other(first, data, body, stop)
                append(packet)
                if type(packet) is Connect:
                    self._needed = 0
                    if self.stops:
                        self._needed, self._held, self._held_bytes = _STOPPED, [b""], 0
                    return stop
            pos = stop
        else:
            if last < end:
                self._needed = 0
                return pos
        if pos < end:
            self._check_start(data[pos])
        self._needed = end - pos + 1
        return pos

    def _check_topic(self, raw: bytes) -> str:
        """Returns the text of a topic that is not in the cache, or that may be too deep."""
        if not raw and self.version == 5:
            return ""  # legal with a topic alias, which is checked with the properties
        topic = _topics.get(raw) or learn_topic(raw)
        if too_deep(topic, self.topic_depth):
            raise ProtocolError(f"the topic has more than {self.topic_depth} levels", ReasonCode.TOPIC_NAME_INVALID)
        return topic

    def _publish_properties(self, data: bytes, pos: int, end: int, topic: str) -> tuple[Properties | None, int]:
        """Decode the property block of a v5 PUBLISH, and check the rules that depend on it."""
        properties, pos = decode_properties(data, pos, end, "Publish")
        if not topic and (properties is None or "topic_alias" not in properties):
            raise ProtocolError("a PUBLISH with neither topic nor topic alias")  # 3.3.2.1
        if properties and self.role == "server" and "subscription_identifier" in properties:
            raise ProtocolError("a subscription identifier in a PUBLISH of a client")  # [MQTT5-3.3.4-6]
        return properties, pos

    def _long_length(self, data: bytes, pos: int, end: int) -> tuple[int, int]:
        """A remaining length of several bytes (2.1.4) -> (length, position after); length -1 if bytes are missing."""
        self._check_start(data[pos])
        body = pos + 2
        while body < end and data[body - 1] > 127 and body < pos + 5:
            body += 1
        if data[body - 1] > 127:
            if body == pos + 5:
                raise MalformedPacket("the remaining length is longer than four bytes")
            return -1, body
        if not data[body - 1]:  # more bytes than needed: only 5.0 forbids this [MQTT5-1.5.5-1]
            if self.version == 5:
                raise MalformedPacket("the remaining length is encoded with more bytes than needed")
            self._overlong = True
        return sum((data[at] & 127) << 7 * (at - pos - 1) for at in range(pos + 1, body)), body

    def _check_start(self, first: int) -> None:
        """Raise if the first byte of a fixed header is illegal, before the rest arrives."""
        kind, flags = first >> 4, first & 15
        if self.role == "server":
            if not self.version and kind != CONNECT:
                raise ProtocolError(f"{_NAMES[kind]} before CONNECT")  # [MQTT-3.1.0-1] [MQTT5-3.1.0-1]
            if self.version and kind == CONNECT:
                raise ProtocolError("a second CONNECT")  # [MQTT-3.1.0-2] [MQTT5-3.1.0-2]
        if kind == 0 or (kind == AUTH and self.version < 5):
            raise MalformedPacket(f"reserved packet type {kind}")
        if kind not in _ACCEPTED[self.role] or (kind == 14 and self.role == "client" and self.version < 5):
            raise ProtocolError(f"{_NAMES[kind]} is not for a {self.role}")
        if kind == PUBLISH:
            if flags & 6 == 6:
                raise MalformedPacket("PUBLISH with QoS 3")  # [MQTT-3.3.1-4] [MQTT5-3.3.1-4]
            if flags & 14 == 8:
                raise MalformedPacket("PUBLISH with DUP and QoS 0")  # [MQTT-3.3.1-2] [MQTT5-3.3.1-2]
        elif kind != CONNECT:  # the version, which decides whether the flags have a meaning, is in the body
            self._check_flags(kind, flags)

    def _check_flags(self, kind: int, flags: int) -> None:
        """Check the flags of all packets except PUBLISH [MQTT-2.2.2-1] [MQTT-2.2.2-2] [MQTT5-2.1.3-1]."""
        unused = _FLAGS_UNUSED_31[kind] if self.version == 3 else 0
        if flags & ~unused != _FLAGS[kind] & ~unused:
            raise MalformedPacket(f"flags {flags} in {_NAMES[kind]}")

    def _check_header(self, first: int, length: int) -> None:
        """Raise if a fixed header is illegal or its packet too large, before the decoder keeps bytes of the body."""
        self._check_start(first)
        kind = first >> 4
        if length > self.max_packet_size:
            beyond = " with topic and payload of the will" if kind == CONNECT and self.max_connect_size else ""
            raise _too_large(f"{_NAMES[kind]} of {length} bytes{beyond}", self.max_packet_size)
        only = (_LENGTHS if self.version in (0, 5) else _LENGTHS_V3).get(kind, length)
        if length != only:
            raise MalformedPacket(f"{_NAMES[kind]} with a remaining length of {length}")

    def _other(self, first: int, data: bytes, pos: int, end: int) -> Packet:
        """Decode a packet that is not on the hot path, complete from `pos` to `end`."""
        answer = _SHORT_ANSWERS.get(first)
        if answer is not None and end - pos == 2 and self.version and (packet_id := data[pos] << 8 | data[pos + 1]):
            return answer(packet_id)
        self._check_header(first, end - pos)
        kind = first >> 4
        if kind == CONNECT:
            return self._connect(first & 15, data, pos, end)
        if kind in FILTER_READERS:
            packet = FILTER_READERS[kind](data, pos, end, self.version, self.max_filters)
            if self.topic_depth:
                self._check_depth(packet)
            return packet
        return READERS[kind](data, pos, end, self.version, self.role)

    def _connect(self, flags: int, data: bytes, pos: int, end: int) -> Connect:
        size = end - pos
        # Keep the version even if the rest is bad: the answer must use it.
        self.version, bridge, pos = parse_protocol(data, pos, end)
        self._check_flags(CONNECT, flags)
        if self._overlong and self.version == 5:
            raise MalformedPacket("the remaining length is encoded with more bytes than needed")
        packet = parse_connect(data, pos, end, self.version, bridge)
        if packet.will is not None:
            size -= _will_size(packet.will)
            if too_deep(packet.will.topic, self.topic_depth):
                raise ProtocolError(
                    f"the will topic has more than {self.topic_depth} levels", ReasonCode.TOPIC_NAME_INVALID
                )
        if size > self.max_connect_size > 0:
            raise _too_large(f"CONNECT of {size} bytes beside topic and payload of the will", self.max_connect_size)
        return packet

    def _check_depth(self, packet: Subscribe | Unsubscribe) -> None:
        if isinstance(packet, Subscribe):
            filters = [one.filter for one in packet.subscriptions]
        else:
            filters = packet.filters
        if any(too_deep(filter, self.topic_depth) for filter in filters):
            reason = ReasonCode.TOPIC_FILTER_INVALID
            raise ProtocolError(f"a topic filter has more than {self.topic_depth} levels", reason)


def _will_size(will: Will) -> int:
    return 4 + len(will.topic.encode()) + len(will.payload)


def _too_large(found: str, limit: int) -> ProtocolError:
    return ProtocolError(f"{found}, the limit is {limit}", ReasonCode.PACKET_TOO_LARGE)

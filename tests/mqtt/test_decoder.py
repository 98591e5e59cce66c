"""The decoder: fixed headers, PUBLISH, order of packets, limits, and input in pieces."""

import pytest

from strogoff.bench.fuzz_decoder import feed_all
from strogoff.mqtt import decoder as module
from strogoff.mqtt import packets as p
from strogoff.mqtt.decoder import Decoder, learn_topic
from strogoff.mqtt.encoder import encode
from strogoff.mqtt.errors import MalformedPacket, ProtocolError

CONNECT = {version: encode(p.Connect("c", version), version) for version in (3, 4, 5)}
PING = b"\xc0\0"


def refused(decoder: Decoder, raw: str | bytes) -> int:
    """The reason with which the decoder refuses the bytes (hex or raw)."""
    assert decoder.feed(bytes.fromhex(raw) if isinstance(raw, str) else raw) == []
    assert decoder.error is not None
    return int(decoder.error.reason)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_version_comes_from_connect(version: int) -> None:
    """A server's decoder reads the packets behind CONNECT in its version, in the same buffer too."""
    decoder = Decoder()
    publish = p.Publish("a", b"x", 1, packet_id=1)
    assert feed_all(decoder, CONNECT[version] + encode(publish, version)) == [p.Connect("c", version), publish]
    assert decoder.version == version


def test_decoding_stops_behind_connect() -> None:
    """Bytes behind a CONNECT are decoded in the next call, so that packets of a refused client never are."""
    decoder = Decoder()
    assert decoder.feed(CONNECT[4] + PING + b"\0\0") == [p.Connect("c", 4)]
    assert decoder.more and decoder.error is None
    assert decoder.feed(PING) == [p.Pingreq()]
    assert not decoder.more and decoder.error is not None
    decoder = Decoder()
    assert decoder.feed(CONNECT[4]) == [p.Connect("c", 4)] and not decoder.more


def stopping() -> Decoder:
    decoder = Decoder()
    decoder.stops = True
    return decoder


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_decoder_that_stops_returns_the_rest_unchanged(version: int) -> None:
    """At any two cuts of the input the rest is all bytes behind the CONNECT, also those that are no MQTT."""
    rest = PING + encode(p.Publish("a", b"x"), version) + b"\0\xff\x30"
    stream = CONNECT[version] + rest
    for first in range(len(stream) + 1):
        for second in range(first, len(stream) + 1):
            decoder, packets = stopping(), []
            for chunk in (stream[:first], stream[first:second], stream[second:]):
                packets += decoder.feed(chunk)
                assert not decoder.more and decoder.error is None
            assert packets == [p.Connect("c", version)]
            assert decoder.take_rest() == rest and decoder.take_rest() == b""
            assert decoder.feed(PING) == [] and decoder.take_rest() == PING


@pytest.mark.parametrize("cut", range(5))
def test_a_decoder_that_stops_can_go_on(cut: int) -> None:
    publish = encode(p.Publish("a", b"x"), 4)
    decoder = stopping()
    decoder.go_on()
    assert decoder.feed(CONNECT[4] + publish[:cut]) == [p.Connect("c", 4)]
    assert decoder.feed(b"") == []
    decoder.go_on()
    assert decoder.more is (cut > 0)
    assert decoder.feed(b"") == [] and decoder.feed(publish[cut:] + PING) == [p.Publish("a", b"x"), p.Pingreq()]
    assert not decoder.more


def test_the_rest_of_a_decoder_that_does_not_stop() -> None:
    decoder = Decoder("server", 4)
    assert decoder.feed(PING + b"\x30\x05") == [p.Pingreq()] and decoder.take_rest() == b"\x30\x05"
    assert decoder.take_rest() == b"" and decoder.feed(PING) == [p.Pingreq()]
    assert decoder.feed(CONNECT[4][:3]) == [] and decoder.error is not None


@pytest.mark.parametrize("frame", [PING, encode(p.Publish("a", b""), 4), encode(p.Publish("a", b"x" * 5000), 4)])
def test_one_call_decodes_a_bounded_number_of_packets(frame: bytes) -> None:
    """A server's decoder returns a part of a large chunk and has the rest ready; a client's returns all of it."""
    count = 3 * max(module.PACKETS_AT_ONCE, module.STEP_BYTES // len(frame))
    parts, decoder = [], Decoder("server", 4)
    parts.append(decoder.feed(frame * count + frame[:1]))
    while decoder.more:
        parts.append(decoder.feed(b""))
    assert sum(map(len, parts)) == count and len(parts) > 1
    assert max(map(len, parts)) <= module.PACKETS_AT_ONCE + module.STEP_BYTES // len(frame) + 1
    assert decoder.feed(frame[1:]) == Decoder("server", 4).feed(frame)
    assert len(Decoder("client", 4).feed(encode(p.Puback(1), 4) * count)) == count


def test_bytes_that_come_before_the_rest_was_asked_for() -> None:
    """They are decoded behind the rest."""
    decoder, count = Decoder("server", 4), 3 * module.STEP_BYTES
    found = decoder.feed(PING * count)
    assert decoder.more
    found += feed_all(decoder, encode(p.Publish("a", b""), 4))
    assert found == [p.Pingreq()] * count + [p.Publish("a", b"")]


@pytest.mark.parametrize("raw", ["c000", "3003 000161", "4002 0001", "e000", "f000", "0000", "2002 0000", "8200"])
def test_connect_comes_first(raw: str) -> None:
    """[MQTT-3.1.0-1] [MQTT5-3.1.0-1] Anything before CONNECT is a protocol error."""
    assert refused(Decoder(), raw) == 0x82


@pytest.mark.parametrize("version", [3, 4, 5])
def test_second_connect(version: int) -> None:
    """[MQTT-3.1.0-2] [MQTT5-3.1.0-2] A second CONNECT is a protocol error; earlier packets are decoded."""
    decoder = Decoder()
    assert len(feed_all(decoder, CONNECT[version] + PING + CONNECT[version] + PING)) == 2
    assert isinstance(decoder.error, ProtocolError)
    assert decoder.error.reason == 0x82


def test_version_is_known_when_connect_is_bad() -> None:
    """The answer to a malformed CONNECT can be given in the client's version; unknown levels leave it 0."""
    decoder = Decoder()
    assert refused(decoder, "100d 0004 4d515454 05 03 003c 00 0000") == 0x81
    assert decoder.version == 5
    decoder = Decoder()
    assert refused(decoder, "100c 0004 4d515454 07 02 003c 0000") == 0x84
    assert decoder.version == 0


def test_other_protocols_are_refused_at_once() -> None:
    """A TLS hello or an HTTP request on the MQTT port is no CONNECT."""
    assert refused(Decoder(), b"GET / HTTP/1.1\r\n") == 0x82
    assert refused(Decoder(), bytes.fromhex("16030100f0010000ec0303")) == 0x81  # CONNECT with impossible flags


@pytest.mark.parametrize(
    ("version", "raw"),
    [(v, f"{kind}{flag:x}") for v in (4, 5) for kind in "457ce" for flag in (1, 2, 8)]  # must be 0
    + [(v, f"{kind}{flag:x}") for v in (3, 4, 5) for kind in "68a" for flag in (0, 1, 6)]  # must be 2
    + [(v, f"{kind}3") for v in (4, 5) for kind in "68a"]
    + [(4, "6a"), (5, "8a"), (5, "f1")],
)
def test_reserved_flags(version: int, raw: str) -> None:
    """[MQTT-2.2.2-1] [MQTT-2.2.2-2] [MQTT-3.6.1-1] [MQTT-3.8.1-1] [MQTT-3.10.1-1] [MQTT-3.14.1-1]

    [MQTT5-2.1.3-1] [MQTT5-3.6.1-1] [MQTT5-3.8.1-1] [MQTT5-3.10.1-1] [MQTT5-3.14.1-1] [MQTT5-3.15.1-1]
    """
    assert refused(Decoder("server", version), raw + "02 0001") == 0x81


def test_flags_that_mean_nothing_in_31() -> None:
    """MQTT 3.1 section 3: flags that a packet does not use are ignored, all of them where its QoS is not used."""
    for flags in range(16):
        connect = bytes((0x10 | flags,)) + CONNECT[3][1:]
        assert Decoder().feed(connect) == [p.Connect("c", 3)]
        assert Decoder("server", 3).feed(bytes((0xC0 | flags, 0))) == [p.Pingreq()]
        assert Decoder("server", 3).feed(bytes((0x40 | flags, 2, 0, 1))) == [p.Puback(1)]
    for flags in (0x2, 0x3, 0xA, 0xB):
        assert Decoder("server", 3).feed(bytes((0x60 | flags, 2, 0, 1))) == [p.Pubrel(1)]


def test_flags_of_connect_and_of_a_server() -> None:
    """[MQTT-2.2.2-2] [MQTT5-2.1.3-1] The same for CONNECT, and for what clients receive."""
    for version in (4, 5):
        assert refused(Decoder(), b"\x11" + CONNECT[version][1:]) == 0x81
    for kind in "249bdef":
        assert refused(Decoder("client", 5), f"{kind}1 03 0001 00") == 0x81


@pytest.mark.parametrize(("role", "kinds"), [("server", "29bd"), ("client", "8ac")])
def test_packets_of_the_wrong_side(role: str, kinds: str) -> None:
    """Section 2.1.2: each side sends its own packets only."""
    for version in (3, 4, 5):
        for kind in kinds:
            flags = 2 if kind in "8a" else 0
            assert refused(Decoder(role, version), f"{kind}{flags} 02 0001") == 0x82


def test_reserved_types() -> None:
    """Section 2.1.2: type 0 never, type 15 and a server's DISCONNECT only in 5.0."""
    for version in (3, 4, 5):
        assert refused(Decoder("server", version), "0000") == 0x81
    assert refused(Decoder("server", 4), "f000") == 0x81
    assert refused(Decoder("client", 4), "e000") == 0x82


PUBLISH = [
    (4, "30 03 0001 61", p.Publish("a", b"")),
    (4, "31 04 0001 61 78", p.Publish("a", b"x", 0, True)),
    (3, "32 06 0001 61 0001 78", p.Publish("a", b"x", 1, packet_id=1)),
    (4, "3d 05 0001 61 ffff", p.Publish("a", b"", 2, True, True, 65_535)),
    (4, "30 06 0003 efbbbf 00", p.Publish("\ufeff", b"\0")),  # [MQTT-1.5.3-3]
    (5, "30 04 0001 61 00", p.Publish("a", b"")),
    (5, "34 07 0001 61 0007 00 78", p.Publish("a", b"x", 2, packet_id=7)),
    (5, "30 06 0000 03 23 0001", p.Publish("", b"", properties={"topic_alias": 1})),
    (5, "30 07 0001 61 03 23 0001", p.Publish("a", b"", properties={"topic_alias": 1})),
]


@pytest.mark.parametrize(("version", "raw", "packet"), PUBLISH)
@pytest.mark.parametrize("role", ["server", "client"])
def test_publish(role: str, version: int, raw: str, packet: p.Publish) -> None:
    """Section 3.3, twice so that the second topic comes from the cache."""
    data = bytes.fromhex(raw)
    assert Decoder(role, version).feed(data * 2) == [packet, packet]
    assert encode(packet, version) == data


BAD_PUBLISH = [
    (4, "36 06 0001 61 0001 78", 0x81, "[MQTT-3.3.1-4] QoS 3"),
    (5, "3f 07 0001 61 0001 00 78", 0x81, "[MQTT5-3.3.1-4] QoS 3"),
    (4, "38 03 0001 61", 0x81, "[MQTT-3.3.1-2] DUP with QoS 0"),
    (5, "39 04 0001 61 00", 0x81, "[MQTT5-3.3.1-2] DUP with QoS 0"),
    (4, "32 05 0001 61 0000", 0x81, "[MQTT-2.3.1-1] packet identifier 0"),
    (5, "34 06 0001 61 0000 00", 0x81, "[MQTT5-2.2.1-3] packet identifier 0"),
    (4, "32 04 0001 61 00", 0x81, "half a packet identifier"),
    (5, "32 03 0001 61", 0x81, "no packet identifier"),
    (4, "30 04 0002 612b", 0x81, "[MQTT-3.3.2-2] [MQTT-4.7.1-1] +"),
    (5, "30 04 0001 23 00", 0x81, "[MQTT5-3.3.2-2] [MQTT5-4.7.0-1] #"),
    (4, "30 03 0001 00", 0x81, "[MQTT-1.5.3-2] [MQTT-4.7.3-2] U+0000"),
    (5, "30 04 0001 00 00", 0x81, "[MQTT5-1.5.4-2] [MQTT5-4.7.3-2] U+0000"),
    (4, "30 05 0003 eda080", 0x81, "[MQTT-1.5.3-1] [MQTT-3.3.2-1] surrogate"),
    (5, "30 04 0001 ff 00", 0x81, "[MQTT5-1.5.4-1] [MQTT5-3.3.2-1] not UTF-8"),
    (4, "30 02 0000", 0x81, "[MQTT-4.7.3-1] empty topic"),
    (3, "30 03 0000 78", 0x81, "empty topic"),
    (5, "30 04 0000 00 78", 0x82, "[MQTT5-4.7.3-1] neither topic nor alias"),
    (5, "30 05 0000 02 01 00", 0x82, "neither topic nor alias"),
    (5, "30 06 0000 03 23 0000", 0x94, "[MQTT5-3.3.2-8] alias 0"),
    (5, "30 06 0001 61 02 0b 05", 0x82, "[MQTT5-3.3.4-6] subscription identifier of a client"),
    (5, "30 03 0001 61", 0x81, "[MQTT5-2.2.2-1] no property length"),
    (5, "30 04 0001 61 01", 0x81, "property length too large"),
    (4, "30 04 0003 6161", 0x81, "topic longer than the packet"),
    (4, "30 00", 0x81, "nothing"),
    (4, "30 01 00", 0x81, "half a topic length"),
]


@pytest.mark.parametrize(("version", "raw", "reason", "rule"), BAD_PUBLISH, ids=[f"{r[0]} {r[3]}" for r in BAD_PUBLISH])
def test_bad_publish(version: int, raw: str, reason: int, rule: str) -> None:
    """[MQTT-3.3.1-4] [MQTT-3.3.2-2] [MQTT5-3.3.1-4] [MQTT5-3.3.2-2] Refused, whatever follows."""
    assert refused(Decoder("server", version), bytes.fromhex(raw) + PING) == reason


def test_subscription_identifiers_of_a_server() -> None:
    """Section 3.3.2.3.8: a server's PUBLISH may carry several."""
    packet = p.Publish("a", b"", properties={"subscription_identifier": [5, 268_435_455]})
    assert Decoder("client", 5).feed(encode(packet, 5)) == [packet]


def test_puback_with_identifier_0() -> None:
    """[MQTT-2.3.1-1] [MQTT5-2.2.1-4] On the hot path too."""
    decoder = Decoder("server", 5)
    assert decoder.feed(bytes.fromhex("4002 0005 4002 0000 4002 0006")) == [p.Puback(5)]
    assert isinstance(decoder.error, MalformedPacket)


def test_nothing_after_an_error() -> None:
    """The packets before the bad one come out, then never anything again."""
    decoder = Decoder("server", 4)
    assert decoder.feed(PING * 3 + b"\0\0" + PING) == [p.Pingreq()] * 3
    error = decoder.error
    assert error is not None
    assert decoder.feed(PING) == []
    assert decoder.error is error


@pytest.mark.parametrize("size", [0, 1, 124, 125, 126, 16_380, 16_381, 70_000, 2_097_152])
def test_lengths(size: int) -> None:
    """[MQTT5-1.5.5-1] Remaining lengths of one to four bytes, whole and in chunks of odd sizes."""
    packet = p.Publish("a", bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    data = encode(packet, 4)
    assert Decoder("server", 4).feed(data + PING) == [packet, p.Pingreq()]
    decoder = Decoder("server", 4)
    step = max(1, len(data) // 7)
    found = [one for at in range(0, len(data), step) for one in decoder.feed(data[at : at + step])]
    assert found == [packet]
    assert decoder.feed(PING) == [p.Pingreq()]


def test_bad_remaining_lengths() -> None:
    """[MQTT5-1.5.5-1] Never five bytes; superfluous bytes are malformed in 5.0, and were not forbidden before."""
    for version in (3, 4, 5):
        assert refused(Decoder("server", version), "30 80808080") == 0x81
        assert refused(Decoder("server", version), "c0 ffffffff01") == 0x81
    for raw in ("c0 8000", "c0 808000", "c0 80808000"):
        assert Decoder("server", 4).feed(bytes.fromhex(raw)) == [p.Pingreq()]
        assert refused(Decoder("server", 5), raw) == 0x81
    padded = {version: b"\x10" + bytes((raw[1] | 128, 0)) + raw[2:] for version, raw in CONNECT.items()}
    assert Decoder().feed(padded[4]) == [p.Connect("c", 4)]
    assert refused(Decoder(), padded[5]) == 0x81


def test_packet_too_large() -> None:
    """Remaining lengths up to the limit pass; beyond it the fixed header alone is refused with 0x95."""
    decoder = Decoder("server", 5, max_packet_size=100)
    fits = p.Publish("a", b"x" * 96)
    assert decoder.feed(encode(fits, 5)) == [fits]
    assert refused(decoder, encode(p.Publish("a", b"x" * 97), 5)[:2]) == 0x95
    decoder = Decoder("server", 5)
    decoder.max_packet_size = 100_000
    assert refused(decoder, "30 ffffff7f") == 0x95
    assert Decoder(max_packet_size=10).feed(CONNECT[4]) == []


@pytest.mark.parametrize("rest", [b"", b"\xff", b"\xff\xff\xff"])
def test_a_first_byte_is_checked_before_its_length_arrives(rest: bytes) -> None:
    """A reserved type, illegal flags or a packet of the other side: no byte more is waited for."""
    for first, reason in ((0x00, 0x81), (0xF0, 0x81), (0x61, 0x81), (0x36, 0x81), (0x20, 0x82), (0x10, 0x82)):
        assert refused(Decoder("server", 4), bytes((first,)) + rest) == reason
    assert refused(Decoder(), b"\x30" + rest) == 0x82
    decoder = Decoder("server", 4)
    assert decoder.feed(PING + b"\x30" + rest) == [p.Pingreq()] and decoder.error is None


def test_headers_are_checked_before_bodies_arrive() -> None:
    """Nothing is kept of a packet that is refused anyway."""
    for raw, reason in (("36 ffff03", 0x81), ("00 ffff03", 0x81), ("61 ffff03", 0x81), ("c0 ffff03", 0x81)):
        assert refused(Decoder("server", 4), raw) == reason
    assert refused(Decoder("server", 4), "40 ffff03") == 0x81
    assert refused(Decoder(), "30 ffff03") == 0x82


def test_large_packets_are_joined_once() -> None:
    """A packet in 4,096 pieces costs one join: no piece is looked at before the packet is complete."""
    packet = p.Publish("a", b"x" * 4_194_304)
    data = encode(packet, 4)
    decoder = Decoder("server", 4)
    pieces = [data[at : at + 1024] for at in range(0, len(data), 1024)]
    assert [one for piece in pieces[:-1] for one in decoder.feed(piece)] == []
    assert len(decoder._held) == len(pieces) - 1
    assert decoder.feed(pieces[-1]) == [packet]
    assert decoder._held == []


def test_empty_input() -> None:
    """No bytes, no packets, also in the middle of one."""
    decoder = Decoder("server", 4)
    assert decoder.feed(b"") == []
    assert decoder.feed(b"\xc0") == []
    assert decoder.feed(b"") == []
    assert decoder.feed(b"\0") == [p.Pingreq()]


def test_size_of_connect() -> None:
    """`max_connect_size` counts all of a CONNECT but topic and payload of its will."""
    will = p.Will("t" * 65_535, b"x" * 65_535)
    largest = encode(p.Connect("c", 4, will=will), 4)
    size = len(largest) - 4 - module.WILL_BYTES  # without the fixed header
    assert len(Decoder(max_connect_size=size).feed(largest)) == 1
    assert refused(Decoder(max_connect_size=size - 1), largest) == 0x95
    assert refused(Decoder(max_connect_size=10), CONNECT[5]) == 0x95


@pytest.mark.parametrize("version", [3, 4, 5])
def test_number_of_filters(version: int) -> None:
    """A SUBSCRIBE or UNSUBSCRIBE with more than `max_filters` is refused while it is decoded, with 0x97."""
    for count, reason in ((3, 0), (4, 0x97), (4000, 0x97)):
        wanted = [p.SubscribeOptions(f"t{number}") for number in range(count)]
        for packet in (p.Subscribe(1, wanted), p.Unsubscribe(1, [each.filter for each in wanted])):
            decoder = Decoder("server", version, max_filters=3)
            assert decoder.feed(encode(packet, version)) == ([] if reason else [packet])
            assert decoder.error is None if not reason else decoder.error is not None and decoder.error.reason == reason


@pytest.mark.parametrize(
    ("version", "packet", "reason"),
    [
        (4, p.Publish("a/b/c/d", b""), 0x90),
        (5, p.Publish("a/b/c/d", b"", 1, packet_id=1), 0x90),
        (5, p.Subscribe(1, [p.SubscribeOptions("a"), p.SubscribeOptions("$share/g/a/+/c/#")]), 0x8F),
        (5, p.Unsubscribe(1, ["a/b/c/d"]), 0x8F),
        (4, p.Publish("a/b/c", b""), 0),
        (5, p.Publish("$SYS/b/c", b""), 0),
        (5, p.Subscribe(1, [p.SubscribeOptions("$share/g/a/+/#")]), 0),
        (5, p.Unsubscribe(1, ["a/b/c"]), 0),
        (5, p.Publish("", b"", properties={"topic_alias": 1}), 0),
        (4, p.Pingreq(), 0),
    ],
)
def test_topic_depth(version: int, packet: p.Packet, reason: int) -> None:
    """Topics and filters that are too deep are refused with 0x90 and 0x8F."""
    data = encode(packet, version)
    assert Decoder("server", version).feed(data) == [packet]
    decoder = Decoder("server", version, topic_depth=3)
    assert decoder.feed(data) == ([] if reason else [packet])
    assert (decoder.error.reason if decoder.error else 0) == reason


def test_topic_depth_of_a_will() -> None:
    """A will topic that is too deep gets 0x90."""
    raw = encode(p.Connect("c", 5, will=p.Will("a/b/c/d", b"")), 5)
    assert refused(Decoder(topic_depth=3), raw) == 0x90
    assert len(Decoder(topic_depth=4).feed(raw)) == 1


def test_topic_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distinct topics do not fill the memory: the cache is bounded by count and by length, and results stay right."""
    module._topics.clear()
    monkeypatch.setattr(module, "TOPICS_KEPT", 50)
    decoder = Decoder("server", 4)
    for number in range(200):
        topic = f"t/{number}" + "x" * (400 * (number % 2))
        assert decoder.feed(encode(p.Publish(topic, b""), 4)) == [p.Publish(topic, b"")]
        assert len(module._topics) <= 50
    assert all(len(raw) <= 256 for raw in module._topics)
    assert learn_topic(b"t/1") is learn_topic(b"t/1")


@pytest.mark.parametrize("arguments", [("client",), ("broker", 4), ("server", 6), ("client", 1)])
def test_impossible_decoders(arguments: tuple[str, int]) -> None:
    """A client's decoder has to be told its version."""
    with pytest.raises(ValueError, match="no decoder"):
        Decoder(*arguments)

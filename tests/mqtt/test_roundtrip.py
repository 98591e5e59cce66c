"""Properties of the codec as a whole, on random input: round trips, any split, arbitrary bytes."""

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strogoff.bench.fuzz_decoder import Generator, chunks, feed_all, mutate, one_case
from strogoff.mqtt import packets as p
from strogoff.mqtt.decoder import Decoder
from strogoff.mqtt.encoder import PACKET_IDS, encode, publish_head
from strogoff.mqtt.properties import encode_properties

VERSION = st.sampled_from([3, 4, 5])
ROLE = st.sampled_from(["server", "client"])
TEXT = st.text(max_size=20).filter(lambda text: "\0" not in text)
NAME = TEXT.filter(lambda text: text != "" and "+" not in text and "#" not in text)
USER = st.fixed_dictionaries({}, optional={"user_property": st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=3)})
CARRIED = st.fixed_dictionaries(
    {},
    optional={
        "payload_format_indicator": st.integers(0, 1),
        "message_expiry_interval": st.integers(0, 2**32 - 1),
        "content_type": TEXT,
        "response_topic": NAME,
        "correlation_data": st.binary(max_size=40),
        "topic_alias": st.integers(1, 65_535),
    },
)


def decoded(role: str, version: int, pieces: list[bytes]) -> tuple[list[p.Packet], str]:
    """Packets and error text of a fresh decoder."""
    decoder = Decoder(role, version)
    found = [packet for piece in pieces for packet in feed_all(decoder, piece)]
    return found, str(decoder.error or "")


@given(VERSION, ROLE, NAME, st.binary(max_size=300), st.integers(0, 2), st.booleans(), st.booleans(), CARRIED, USER)
def test_publish_round_trip(
    version: int, role: str, topic: str, payload: bytes, qos: int, retain: bool, dup: bool, carried: Any, user: Any
) -> None:
    """[MQTT-3.3.2-1] [MQTT5-3.3.2-1] [MQTT5-3.3.2-17] Any topic, payload and properties come back unaltered."""
    properties = (carried | user) or None if version == 5 else None
    packet = p.Publish(topic, payload, qos, retain, dup and qos > 0, 7 if qos else 0, properties)
    data = encode(packet, version)
    assert decoded(role, version, [data]) == ([packet], "")
    block = encode_properties(properties, "Publish") if version == 5 else b""
    head = publish_head(version, topic.encode(), len(payload), qos, retain, packet.dup, block)
    assert head + (PACKET_IDS[7] if qos else b"") + block + payload == data


@given(TEXT, VERSION, st.booleans(), st.integers(0, 65_535), st.none() | TEXT, st.binary(max_size=30), NAME, USER)
def test_connect_round_trip(
    client_id: str,
    version: int,
    clean: bool,
    keepalive_s: int,
    username: str | None,
    secret: bytes,
    topic: str,
    user: Any,
) -> None:
    """[MQTT-3.1.3-1] [MQTT5-3.1.3-1] Every field of CONNECT comes back."""
    properties = user or None if version == 5 else None
    password = secret if username is not None or version == 5 else None
    will = p.Will(topic, secret, keepalive_s % 3, clean, properties)
    packet = p.Connect(
        client_id, version, clean, keepalive_s, username, password, will, properties, version < 5 and clean
    )
    assert decoded("server", 0, [encode(packet, version)]) == ([packet], "")


@settings(max_examples=300)
@given(VERSION, ROLE, st.integers(0, 2**32))
def test_every_packet_round_trip(version: int, role: str, seed: int) -> None:
    """Whatever a peer may send is decoded as it was encoded, in one piece and in any pieces."""
    rng = random.Random(seed)
    generator = Generator(rng, version, "client" if role == "server" else "server")
    sent: list[p.Packet] = [generator.packet() for _ in range(5)]
    data = b"".join(encode(packet, version) for packet in sent)
    assert decoded(role, version, [data]) == (sent, "")
    assert decoded(role, version, chunks(rng, data)) == (sent, "")


@settings(max_examples=300)
@given(ROLE, st.sampled_from([0, 3, 4, 5]), st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_arbitrary_bytes(role: str, version: int, data: bytes, cuts: list[int]) -> None:
    """Nothing but packets and a `WireError` comes out of any bytes, and the split changes nothing."""
    version = version if role == "server" else version or 4
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in pairwise(edges)]
    assert decoded(role, version, pieces) == decoded(role, version, [data])


@settings(max_examples=300)
@given(ROLE, VERSION, st.integers(0, 2**32))
def test_damaged_packets(role: str, version: int, seed: int) -> None:
    """[MQTT-4.8.0-1] [MQTT5-4.13.1-1] The same for packets that were damaged on the way, byte by byte."""
    rng = random.Random(seed)
    generator = Generator(rng, version, "client" if role == "server" else "server")
    data = mutate(rng, b"".join(encode(generator.packet(), version) for _ in range(3)))[:3000]
    assert decoded(role, version, [data[at : at + 1] for at in range(len(data))]) == decoded(role, version, [data])


@pytest.mark.parametrize("seed", range(3))
def test_fuzz_cases(seed: int) -> None:
    """The fuzz driver of the benchmarks finds nothing in its first cases."""
    for case in range(150):
        _, data, wrong = one_case(seed, case)
        assert not wrong, data.hex()

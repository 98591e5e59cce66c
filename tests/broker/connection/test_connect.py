"""CONNECT in all versions: which packets are accepted, which are refused, and with which answer."""

from __future__ import annotations

from string import ascii_letters, digits
from typing import Any

import pytest

from strogoff.mqtt import packets
from strogoff.mqtt.encoder import encode
from strogoff.mqtt.packets import Connack, Pingreq, Pingresp, Puback
from strogoff.netsplit.policy import ViewState

from ...harness.broker import BrokerHarness, connect, option, publish
from ...harness.transcript import CLOSED, RawClient, accepted, reason_of, refused, will

VERSIONS = (3, 4, 5)
REFUSED = {3: (1, 2, 3, 4, 5), 4: (1, 2, 3, 4, 5), 5: (0x84, 0x85, 0x88, 0x86, 0x87)}
"""Per version: unsupported version, bad client id, unavailable, bad credentials, not authorised."""


@pytest.mark.parametrize("version", VERSIONS)
def test_an_accepted_connect(version: int) -> None:
    """CONNACK with 0, and the connection serves.

    [MQTT-3.1.4-4] [MQTT5-3.1.4-5] [MQTT-3.2.0-1] [MQTT5-3.2.0-1] [MQTT-3.12.4-1] [MQTT5-3.12.4-1] [MQTT-3.2.2-3]
    """
    broker = BrokerHarness()
    caller = RawClient(broker, version)
    assert caller.says(connect("c", version)) == [accepted()]
    assert caller.says(Pingreq()) == [Pingresp()]
    assert caller.says(Pingreq(), Pingreq()) == [Pingresp(), Pingresp()]


def test_a_plain_connack_has_no_properties() -> None:
    """No property, no server keep alive: the client's own values hold, and every property has a default.

    [MQTT5-3.2.2-22] [MQTT5-4.12.0-6] [MQTT-7.0.0-2]
    """
    assert RawClient(BrokerHarness(), 5).says(connect("c", 5, keepalive_s=30)) == [Connack(False, 0, None)]


def frame_of(name: bytes, level: int, rest: bytes = b"\x02\x00\x00\x00\x01c") -> bytes:
    body = len(name).to_bytes(2, "big") + name + bytes((level,)) + rest
    return b"\x10" + bytes((len(body),)) + body


@pytest.mark.parametrize(
    ("name", "level"), [(b"MQTT", 6), (b"MQTT", 3), (b"MQTT", 0), (b"MQIsdp", 4), (b"AMQP", 4), (b"mqtt", 5)]
)
def test_an_unknown_protocol_is_refused(name: bytes, level: int) -> None:
    """CONNACK 1 and the close; nothing behind it is processed.

    [MQTT-3.1.2-1] [MQTT-3.1.2-2] [MQTT5-3.1.2-1] [MQTT5-3.1.2-2] [MQTT-3.1.4-5]
    """
    broker = BrokerHarness()
    watcher = broker.client("w")
    watcher.subscribe(("#", 0))
    caller = RawClient(broker)
    behind = encode(publish("t"), 4)
    assert caller.says(frame_of(name, level) + behind) == [Connack(False, 1), CLOSED]
    assert watcher.messages() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_that_the_listener_does_not_allow(version: int) -> None:
    """`allowed_protocol_versions`: 1 or 0x84 in the client's own form [MQTT-3.1.2-2] [MQTT5-3.1.2-2] [MQTT5-3.2.2-7]"""
    broker = BrokerHarness()
    others = tuple(each for each in VERSIONS if each != version)
    caller = RawClient(broker, version, allowed_protocol_versions=others)
    caller.send(connect("c", version))
    assert refused(caller, REFUSED[version][0])
    for other in others:
        assert RawClient(broker, other, allowed_protocol_versions=others).says(connect("c", other)) == [accepted()]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_without_a_name_in_its_certificate_cannot_choose_one(version: int) -> None:
    """`use_identity_as_username` at a listener that asks for certificates: the name in CONNECT does not count."""
    broker = BrokerHarness()
    named: dict[str, Any] = {"type": "ssl", "require_certificate": True, "use_identity_as_username": True}
    caller = RawClient(broker, version, allow_anonymous_override=True, **named)
    caller.send(connect("c", version, username="alice"))
    assert refused(caller, REFUSED[version][3])
    for other in ({"type": "tcp"}, {"require_certificate": False}, {"use_identity_as_username": False}):
        free = RawClient(broker, version, **(named | other))
        assert free.says(connect("c", version, username="alice")) == [accepted()]


@pytest.mark.parametrize(("level", "code"), [(131, 0), (132, 1)])
def test_bridges_need_their_own_versions(level: int, code: int) -> None:
    """131 is among the defaults, 132 is not."""
    broker = BrokerHarness()
    bridge = packets.Connect("b", level - 128, bridge=True)
    for _ in range(2):
        caller = RawClient(broker, level - 128)
        assert [each.reason for each in caller.says(bridge) if each != CLOSED] == [code]
    assert RawClient(broker, 4, allowed_protocol_versions=(132,)).says(packets.Connect("b", 4, bridge=True)) == [
        accepted()
    ]
    caller = RawClient(broker, 4, allowed_protocol_versions=(132,))
    caller.send(connect("plain"))
    assert refused(caller, 1)


# -- what breaks the format


@pytest.mark.parametrize("version", [4, 5])
def test_a_reserved_connect_flag(version: int) -> None:
    """The connection is closed; v5 gets a reason code.

    [MQTT-3.1.2-3] [MQTT5-3.1.2-3] [MQTT-3.1.4-1] [MQTT5-3.1.4-1] [MQTT5-4.13.1-1] [MQTT-3.2.2-6]
    """
    frame = bytearray(encode(connect("c", version), version))
    frame[9] |= 1
    heard = RawClient(BrokerHarness(), version).says(bytes(frame))
    assert [each if each == CLOSED else each.reason for each in heard] == ([CLOSED] if version == 4 else [0x81, CLOSED])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_connect_that_ends_too_early(version: int) -> None:
    """The fields do not fit the length [MQTT-3.1.4-1] [MQTT5-3.1.4-1] [MQTT-4.8.0-1] [MQTT5-4.13.1-1]"""
    frame = bytearray(encode(connect("client", version), version))
    frame[1] -= 2
    broker = BrokerHarness()
    heard = RawClient(broker, version).says(bytes(frame[:-2]))
    assert [each if each == CLOSED else each.reason for each in heard] == ([CLOSED] if version < 5 else [0x81, CLOSED])
    assert broker.node.sessions.get("", "client") is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "first",
    [publish("t"), publish("t", b"", 1), Pingreq(), packets.Disconnect(), Puback(1), b"\x00\x00", b"GET / HTTP"],
)
def test_the_first_packet_is_connect(version: int, first: Any) -> None:
    """Any other packet closes the connection without an answer [MQTT-3.1.0-1] [MQTT5-3.1.0-1] [MQTT5-3.14.0-1]"""
    assert RawClient(BrokerHarness(), version).says(first, connect("c", version)) == [CLOSED]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("together", [False, True])
def test_a_second_connect(version: int, together: bool) -> None:
    """It ends the connection, the will is sent, and there is one CONNACK at most.

    [MQTT-3.1.0-2] [MQTT5-3.1.0-2] [MQTT5-3.2.0-2] [MQTT-4.8.0-1] [MQTT5-4.13.1-1]
    """
    broker = BrokerHarness()
    watcher = broker.client("w")
    watcher.subscribe(("will", 0))
    caller = RawClient(broker, version)
    first = connect("c", version, will=will())
    heard = caller.says(first, connect("c2", version)) if together else caller.says(first) + caller.says(first)
    assert heard[0] == accepted() and heard[-1] == CLOSED
    assert [each.reason for each in heard[1:-1]] == ([0x82] if version == 5 else [])
    assert watcher.payloads() == [b"gone"]


# -- client identifiers


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("client_id", ["c", digits + ascii_letters[:13], ascii_letters[13:36], ascii_letters[-16:]])
def test_ordinary_client_ids(version: int, client_id: str) -> None:
    """[MQTT-3.1.3-5] [MQTT5-3.1.3-5]"""
    broker = BrokerHarness()
    assert RawClient(broker, version).says(connect(client_id, version)) == [accepted()]
    assert broker.node.sessions.get("", client_id) is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_max_client_id_size(version: int) -> None:
    """The limit is in bytes; a longer id is refused [MQTT-3.1.3-9] [MQTT5-3.1.3-8] [MQTT-3.2.2-5] [MQTT5-4.13.2-1]"""
    broker = BrokerHarness(max_client_id_size=10)
    assert RawClient(broker, version).says(connect("é" * 5, version)) == [accepted()]
    caller = RawClient(broker, version)
    caller.send(connect("é" * 5 + "x", version))
    assert refused(caller, REFUSED[version][1])


@pytest.mark.parametrize(("version", "clean"), [(3, True), (3, False), (4, False)])
def test_an_empty_client_id_that_is_refused(version: int, clean: bool) -> None:
    """MQTT 3.1 allows none at all; 3.1.1 requires Clean Session with it [MQTT-3.1.3-8] [MQTT-3.1.3-9] [MQTT-3.2.2-4]"""
    caller = RawClient(BrokerHarness(), version)
    caller.send(connect("", version, clean))
    assert refused(caller, 2)


@pytest.mark.parametrize(("version", "clean"), [(4, True), (5, True), (5, False)])
def test_an_empty_client_id_gets_a_unique_one(version: int, clean: bool) -> None:
    """v5 learns it, and can come back under it.

    [MQTT-3.1.3-6] [MQTT5-3.1.3-6] [MQTT5-3.1.3-7] [MQTT5-3.2.2-16]
    """
    broker = BrokerHarness()
    callers = [RawClient(broker, version) for _ in range(3)]
    extra = {"expiry_s": 60} if version == 5 else {}
    answers = [caller.says(connect("", version, clean, **extra)) for caller in callers]
    names = [session.client_id for session in broker.node.sessions.everything()]
    assert len(set(names)) == 3 and all(name.startswith("anon-") for name in names)
    for caller, (connack,), name in zip(callers, answers, names, strict=True):
        assert not caller.closed and not connack.session_present
        if version == 5:
            assert connack.properties["assigned_client_identifier"] == name
            caller.vanish()
            assert RawClient(broker, 5).says(connect(name, 5, False, 60)) == [accepted(True)]


def test_the_assigned_client_id_is_as_good_as_any() -> None:
    """A newcomer with the assigned id takes the session over [MQTT5-3.1.3-7] [MQTT-3.1.3-2] [MQTT5-3.1.3-2]"""
    broker = BrokerHarness()
    first = RawClient(broker, 5)
    (connack,) = first.says(connect("", 5))
    name = connack.properties["assigned_client_identifier"]
    assert RawClient(broker, 5).says(connect(name, 5)) == [accepted()]
    assert first.hears() == [packets.Disconnect(0x8E), CLOSED]


# -- limits that CONNACK announces


def test_connack_announces_the_limits() -> None:
    """Receive maximum, packet size, aliases, and an expiry that is not the one asked for."""
    broker = BrokerHarness(receive_max_broker=7, max_message_size=100, topic_alias_max_client=3)
    assert RawClient(broker, 5).says(connect("c", 5)) == [
        accepted(receive_maximum=7, maximum_packet_size=102, topic_alias_maximum=3)
    ]


@pytest.mark.parametrize("limit", [20, 127, 128, 16383, 16384])
def test_the_announced_packet_size_is_the_limit(limit: int) -> None:
    """A packet of exactly that size is served, a larger one ends the connection with 0x95."""
    broker = BrokerHarness(max_message_size=limit)
    caller = RawClient(broker, 5)
    (connack,) = caller.says(connect("", 5))
    largest = connack.properties["maximum_packet_size"]

    message = publish("t", b"", 1, 1)
    message.payload = bytes(largest - len(encode(message, 5)) - 3)
    while len(encode(message, 5)) < largest:
        message.payload += b"x"
    assert len(encode(message, 5)) == largest
    assert caller.says(message) == [Puback(1, 0x10)]
    message.payload += b"x"
    disconnect, closed = caller.says(message)
    assert (disconnect.reason, closed) == (0x95, CLOSED)
    assert broker.node.env.counters.invalid_msg_size == [0, 1]


@pytest.mark.parametrize(("limit", "answer"), [(1, []), (4, []), (5, [0x83]), (20, [0x83]), (44, [0x83]), (45, [0])])
def test_a_connack_that_the_client_cannot_take(limit: int, answer: list[int]) -> None:
    """The assigned client id has 37 bytes: a smaller client is refused and closed, and no session begins.

    [MQTT5-3.1.2-24] [MQTT5-3.1.4-6]
    """
    broker = BrokerHarness()
    caller = RawClient(broker, 5)
    heard = caller.says(connect("", 5, maximum_packet_size=limit))
    assert [each.reason for each in heard if each != CLOSED] == answer
    assert (heard[-1:] == [CLOSED]) == (answer != [0]) and len(broker.node.sessions) == (answer == [0])


@pytest.mark.parametrize("kind", [packets.Subscribe, packets.Unsubscribe])
def test_an_answer_that_the_client_cannot_take(kind: Any) -> None:
    """SUBACK and UNSUBACK cannot be left out: if one is too large, the connection ends with 0x95.

    [MQTT5-3.1.2-24] [MQTT5-3.8.4-1]
    """
    broker = BrokerHarness()
    filters = [f"t{number}" for number in range(20)]
    packet = kind(1, [option(each) for each in filters] if kind is packets.Subscribe else filters)
    for limit, served in ((25, True), (24, False)):
        caller = RawClient(broker, 5)
        assert caller.says(connect(f"c{limit}", 5, maximum_packet_size=limit)) == [accepted()]
        heard = caller.says(packet)
        assert len(heard[0].reasons) == 20 if served else reason_of(heard) == 0x95


# -- what a client may send before it is accepted


@pytest.mark.parametrize("version", VERSIONS)
def test_max_connect_bytes(version: int) -> None:
    """A larger CONNECT is refused, whatever `max_message_size` is; topic and payload of the will are not counted."""
    broker = BrokerHarness(max_connect_bytes=200)
    will = packets.Will("t" * 60_000, b"x" * 60_000)
    assert RawClient(broker, version).says(connect("c", version, will=will)) == [accepted()]
    heard = RawClient(broker, version).says(connect("d", version, username="u" * 200))
    assert [each.reason for each in heard if each != CLOSED] == ([0x95] if version == 5 else [])
    assert heard[-1] == CLOSED
    assert RawClient(broker, version).says(b"\x10\xff\xff\x7f") == [CLOSED]
    assert RawClient(BrokerHarness(max_connect_bytes=0), version).says(
        connect("d", version, username="u" * 60_000)
    ) == [accepted()]


@pytest.mark.parametrize("accept", [True, False])
def test_the_link_is_called_when_the_client_is_accepted(accept: bool) -> None:
    """The link is called once, when CONNECT is accepted."""
    broker = BrokerHarness(allow_anonymous=accept, max_client_id_size=5)
    caller, told = RawClient(broker, 4), []
    caller.pipe.accepted = lambda: told.append(True)  # type: ignore[method-assign]
    caller.says(connect("c" if accept else "too long"))
    assert told == [True] * accept


def test_a_large_packet_behind_connect() -> None:
    """The limit of CONNECT does not hold for the packets behind it, also if they arrive together with it."""
    broker = BrokerHarness(max_connect_bytes=200)
    caller = RawClient(broker, 4)
    assert caller.says(connect("c"), publish("t", bytes(300_000), 1, 7)) == [accepted(), Puback(7)]


# -- the split


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("flag", "state", "serves"),
    [
        ("off", "whole", True),
        ("off", "majority", False),
        ("off", "minority", False),
        ("majority", "majority", True),
        ("majority", "minority", False),
        ("on", "minority", True),
    ],
)
def test_registration_in_a_split(version: int, flag: str, state: str, serves: bool) -> None:
    """`allow_register_during_netsplit`: CONNACK 3 or 0x88, and the older connection stays."""
    broker = BrokerHarness(allow_register_during_netsplit=flag)
    older = broker.client("c", version)
    broker.node.policy.view_state = ViewState(state)
    caller = RawClient(broker, version)
    caller.send(connect("c", version))
    if serves:
        assert caller.hears() == [accepted()]
    else:
        assert refused(caller, REFUSED[version][2])
        assert older.ask(Pingreq()) == [Pingresp()]
        assert [event["operation"] for event in broker.events("policy.deny")] == ["register"]
        broker.node.policy.view_state = ViewState.WHOLE
        assert RawClient(broker, version).says(connect("c", version)) == [accepted()]


# -- the disk


@pytest.mark.parametrize("version", VERSIONS)
def test_a_full_disk_takes_no_new_session(version: int) -> None:
    """A session that needs the disk is refused with 3 or 0x97; a clean session needs none (P9)."""
    broker = BrokerHarness()
    broker.persistent("d").subscribe(("d", 1))
    broker.disk.full = True
    broker.client("p").publish("d", b"", 1, 1)
    broker.pass_s(0.1)
    assert broker.node.policy.restricted
    expiry = 60 if version == 5 else None
    caller = RawClient(broker, version)
    caller.send(connect("c", version, False, expiry))
    assert refused(caller, 0x97 if version == 5 else 3)
    caller = RawClient(broker, version)
    caller.send(connect("c", version, True, will=will(qos=1)))
    assert refused(caller, 0x97 if version == 5 else 3)
    assert RawClient(broker, version).says(connect("c", version)) == [accepted()]
    broker.disk.full = False
    broker.pass_s(10)
    assert RawClient(broker, version).says(connect("c2", version, False, expiry)) == [accepted()]

"""CONNACK with a reason: the answer of each version when its CONNECT is refused."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.plugins.hooks import Refuse
from strogoff.mqtt import packets
from strogoff.mqtt.encoder import encode
from strogoff.mqtt.packets import Connack

from ...harness.broker import BrokerHarness, PacketClient, connect


class Says:
    """A plugin with one answer to every CONNECT."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def auth_on_register(self, *_: Any) -> Any:
        return self.answer

    def auth_on_publish(self, *_: Any) -> bool:
        return False

    def auth_on_subscribe(self, *_: Any) -> bool:
        return True


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(
    ("answer", "old", "new"),
    [
        (False, 5, 0x86),
        (Refuse("invalid_credentials"), 4, 0x86),
        (Refuse("banned", 0x8A), 5, 0x8A),
        (None, 5, 0x86),
    ],
)
def test_a_plugin_refuses_connect(version: int, answer: Any, old: int, new: int) -> None:
    """4 for wrong credentials, 5 for all else; v5 0x86 unless the plugin names a code; then the end.

    [MQTT-3.2.2-5] [MQTT5-3.2.2-7] [MQTT-3.2.2-4] [MQTT5-3.2.2-6]
    """
    broker = BrokerHarness(Says(answer), allow_anonymous=False)
    client, connack = broker.connect("c", version)
    assert (connack.reason, connack.session_present) == (new if version == 5 else old, False)
    assert client.closed and len(broker.node.sessions) == 0


@pytest.mark.parametrize(("version", "code"), [(3, 4), (4, 4), (5, 0x86)])
def test_an_unknown_user_gets_the_answer_of_a_wrong_password(version: int, code: int) -> None:
    """Before, the answers differed (5 and 4), so a stranger could find out which user names exist."""
    answers = []
    for answer in (None, Refuse("invalid_credentials")):
        broker = BrokerHarness(Says(answer), allow_anonymous=False)
        answers.append(broker.connect("c", version, username="ann", password=b"guess")[1])
    assert answers[0] == answers[1] == Connack(False, code)


def test_properties_of_a_refusal() -> None:
    """v5 gets them; without reason string and user properties if it asked for none."""
    why = {"reason_string": "no room", "user_property": [("a", "b")], "server_reference": "other:1883"}
    broker = BrokerHarness(Says(Refuse("full", 0x9C, why)), allow_anonymous=False)
    _, connack = broker.connect("c", 5)
    assert connack == Connack(False, 0x9C, why)
    _, connack = broker.connect("c", 4)
    assert connack == Connack(False, 5)
    # CONNACK may carry them whatever the client asked for [MQTT5-3.1.2-29]
    _, connack = broker.connect("c", 5, request_problem_information=0)
    assert connack.reason == 0x9C


def test_a_small_client_gets_the_code_without_reason_string() -> None:
    """No CONNACK above the client's maximum packet size [MQTT5-3.2.2-19] [MQTT5-3.2.2-20]."""
    why = {"reason_string": "x" * 100, "user_property": [("a", "b" * 100)]}
    broker = BrokerHarness(Says(Refuse("full", 0x9C, why)), allow_anonymous=False)
    _, connack = broker.connect("c", 5, maximum_packet_size=20)
    assert connack == Connack(False, 0x9C)


def test_a_small_client_is_refused_without_reason_string_before_plugins_are_asked() -> None:
    """The client identifier, the topic of the will, or the version is not allowed [MQTT5-3.1.2-24] [MQTT5-3.2.2-19]."""
    broker = BrokerHarness(max_client_id_size=3, topic_max_depth=1)
    limit = len(encode(Connack(False, 0x85), 5))
    assert broker.connect("long", 5, maximum_packet_size=limit)[1] == Connack(False, 0x85)
    assert broker.connect("c", 5, will=packets.Will("a/b", b""), maximum_packet_size=limit)[1] == Connack(False, 0x90)
    older = PacketClient(broker, 5, allowed_protocol_versions=(4,))
    assert older.ask(connect("c", 5, maximum_packet_size=limit)) == [Connack(False, 0x84)]


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_will_that_is_not_allowed(version: int) -> None:
    """It is refused at CONNECT, not when the will is due."""
    broker = BrokerHarness(Says(True))
    _, connack = broker.connect("c", version, will=packets.Will("t", b""))
    assert connack.reason == (0x87 if version == 5 else 5)


def test_an_unknown_version_is_refused() -> None:
    """CONNACK 1 in the old form, then the end [MQTT-3.1.2-2]."""
    broker = BrokerHarness()
    client = PacketClient(broker, 4)
    frame = b"\x10\x0d\x00\x04MQTT\x09\x02\x00\x00\x00\x01c"
    assert client.ask(frame) == [Connack(False, 1)]
    assert client.closed


def test_a_malformed_connect_of_v5_gets_a_reason_code() -> None:
    """CONNACK with 0x80 or above may come before the end; the older versions are closed [MQTT-3.1.4-1]."""
    broker = BrokerHarness()
    five = PacketClient(broker, 5)
    frame = b"\x10\x0e\x00\x04MQTT\x05\x03\x00\x00\x00\x00\x01c"  # the reserved flag is set [MQTT5-3.1.2-3]
    (connack,) = five.ask(frame)
    assert (type(connack), connack.reason) == (Connack, 0x81) and five.closed
    four = PacketClient(broker, 4)
    assert four.ask(b"\x10\x0d\x00\x04MQTT\x04\x03\x00\x00\x00\x01c") == [] and four.closed


def test_packets_before_connect_get_no_answer() -> None:
    """A connection begins with CONNECT [MQTT-3.1.0-1] [MQTT5-3.1.0-1]; other clients get no answer."""
    broker = BrokerHarness()
    client = PacketClient(broker, 4)
    assert client.ask(packets.Pingreq(), connect("c")) == [] and client.closed
    assert len(broker.node.connections) == 0


def test_refusals_are_counted() -> None:
    """By version and code."""
    broker = BrokerHarness(Says(False), allow_anonymous=False)
    for version in (3, 4, 5):
        broker.connect("c", version)
    rows = [(labels, value) for name, labels, value in broker.node.env.counters.rows() if name == "mqtt_connack_sent"]
    assert rows == [
        ({"mqtt_version": "4", "return_code": "5"}, 2),
        ({"mqtt_version": "5", "reason_code": "bad_user_name_or_password"}, 1),
    ]

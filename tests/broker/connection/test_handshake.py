"""The limits that a connection negotiates with its client, and how long the connection keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.connection.connection import ClientConnection
from strogoff.broker.connection.handshake import Authentication, Handshake
from strogoff.broker.plugins.verdicts import Allow
from strogoff.broker.sessions.absence import NEVER
from strogoff.mqtt import packets
from strogoff.mqtt.wire import MAX_VARINT
from strogoff.sim.engine.host import AllowAll
from tests.harness.broker import BrokerHarness, PacketClient, connect


class Changes(AllowAll):
    """A plugin that changes the client."""

    def __init__(self, **modifiers: Any) -> None:
        self.modifiers = modifiers

    def auth_on_register(self, *_: Any) -> Any:
        return Allow(self.modifiers)

    def auth_on_register_m5(self, *_: Any) -> Any:
        return Allow(self.modifiers)


def _begin(
    broker: BrokerHarness, version: int, clean: bool = False, **fields: Any
) -> tuple[PacketClient, ClientConnection]:
    """Connect a client whose CONNACK waits for the disk."""
    broker.hold_disk()
    client = PacketClient(broker, version)
    client.send(connect("c", version, clean, **fields))
    broker.settle()
    (connection,) = broker.node.connections.values()
    return client, connection


def _negotiated(broker: BrokerHarness, version: int, **fields: Any) -> Handshake:
    handshake = _begin(broker, version, **fields)[1].handshake
    assert handshake is not None
    return handshake


@pytest.mark.parametrize(("asked", "limit", "window"), [(10, 3, 3), (3, 10, 3), (None, 10, 10), (None, 65535, 65535)])
def test_the_window_of_v5_is_the_least_of_both(asked: int | None, limit: int, window: int) -> None:
    fields = {} if asked is None else {"receive_maximum": asked}
    assert _negotiated(BrokerHarness(receive_max_client=limit), 5, expiry_s=100, **fields).window == window


@pytest.mark.parametrize(("option", "window"), [(7, 7), (0, 65535)])
def test_the_window_of_older_versions_is_the_setting_of_the_node(option: int, window: int) -> None:
    assert _negotiated(BrokerHarness(max_inflight_messages=option), 4).window == window


def test_a_plugin_changes_the_window() -> None:
    broker = BrokerHarness(Changes(max_inflight_messages=2), allow_anonymous=False)
    assert _negotiated(broker, 4).window == 2
    broker = BrokerHarness(Changes(fc_receive_max_client=2), allow_anonymous=False)
    assert _negotiated(broker, 5, expiry_s=100).window == 2


@pytest.mark.parametrize(("asked", "expiry"), [(100, 100), (NEVER, NEVER)])
def test_the_expiry_of_v5_is_the_requested_one(asked: int, expiry: int) -> None:
    assert _negotiated(BrokerHarness(), 5, expiry_s=asked).expiry_s == expiry


@pytest.mark.parametrize(("option", "expiry"), [(0, NEVER), (60, 60)])
def test_the_expiry_of_older_versions_is_the_setting_of_the_node(option: int, expiry: int) -> None:
    assert _negotiated(BrokerHarness(persistent_client_expiration_s=option), 4).expiry_s == expiry


def test_a_clean_session_of_older_versions_expires_at_once() -> None:
    """The will makes CONNACK wait for the disk."""
    will = packets.Will("t", b"")
    assert _negotiated(BrokerHarness(persistent_client_expiration_s=60), 4, clean=True, will=will).expiry_s == 0


def test_a_plugin_changes_the_expiry() -> None:
    broker = BrokerHarness(Changes(session_expiry_interval=5), allow_anonymous=False)
    assert _negotiated(broker, 5, expiry_s=100).expiry_s == 5


@pytest.mark.parametrize(("option", "limit"), [(0, MAX_VARINT), (1000, 1000)])
def test_the_message_limit_is_the_setting_of_the_node(option: int, limit: int) -> None:
    broker = BrokerHarness(max_message_size=option)
    _, connection = _begin(broker, 4)
    assert connection.handshake is not None
    assert connection.handshake.message_limit == limit
    assert connection.decoder.max_packet_size == limit


@pytest.mark.parametrize(("modifier", "limit"), [(0, MAX_VARINT), (500, 500)])
def test_a_plugin_changes_the_message_limit(modifier: int, limit: int) -> None:
    broker = BrokerHarness(Changes(max_message_size=modifier), allow_anonymous=False, max_message_size=1000)
    assert _negotiated(broker, 4).message_limit == limit


def test_the_handshake_has_the_packet_changed_by_the_plugin() -> None:
    broker = BrokerHarness(Changes(clean_session=False), allow_anonymous=False)
    packet = _negotiated(broker, 4, clean=True).packet
    assert (packet.client_id, packet.clean_start) == ("c", False)


def test_the_handshake_is_dropped_after_connack() -> None:
    broker = BrokerHarness()
    client, connection = _begin(broker, 4)
    assert client.take() == []
    assert connection.handshake is not None
    broker.free_disk()
    assert client.take() == [packets.Connack(False, 0)]
    assert connection.handshake is None


def test_there_is_no_handshake_before_connect() -> None:
    broker = BrokerHarness()
    PacketClient(broker, 4)
    (connection,) = broker.node.connections.values()
    assert connection.handshake is None


def test_a_new_handshake_promises_nothing() -> None:
    packet = packets.Connect("c")
    handshake = Handshake(packet, 1000)
    assert handshake.packet is packet
    assert (handshake.message_limit, handshake.window, handshake.expiry_s) == (1000, 0, 0)


def test_a_connection_without_a_method_has_no_exchange() -> None:
    broker = BrokerHarness()
    broker.client("c", 5)
    (connection,) = broker.node.connections.values()
    auth: Authentication = connection.auth
    assert (auth.method, auth.begun, auth.then) == (None, False, None)

"""Every packet that a client may send has a handler."""

from __future__ import annotations

from strogoff.broker.connection.dispatch import HANDLERS
from strogoff.mqtt import packets

FROM_CLIENTS = {
    packets.Connect, packets.Pubrec, packets.Pubrel, packets.Pubcomp, packets.Subscribe,
    packets.Unsubscribe, packets.Pingreq, packets.Disconnect, packets.Auth,
}  # fmt: skip
"""Besides PUBLISH and PUBACK, which have handlers of their own."""


def test_each_packet_of_a_client_has_a_handler() -> None:
    assert set(HANDLERS.others) == FROM_CLIENTS


def test_before_connect_only_a_handshake_is_handled() -> None:
    assert HANDLERS.first == {packets.Connect, packets.Auth, packets.Disconnect}

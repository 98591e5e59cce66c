"""A PUBLISH as it came is a request that is accepted for the first time."""

from __future__ import annotations

import pytest

from strogoff.broker.connection.publish_state import PublishRequest, PublishState, request_of
from strogoff.mqtt import packets


@pytest.mark.parametrize("dup", [True, False])
def test_a_packet_without_properties_becomes_a_request(dup: bool) -> None:
    packet = packets.Publish("t", b"x", 2, True, dup, 9, None)
    assert request_of(packet) == PublishRequest("t", b"x", 2, True, None, 0, 9, 2, dup=False)


def test_a_new_connection_has_nothing_open_and_no_limit_yet() -> None:
    state = PublishState()
    assert (state.deferred, state.waiting_for_lease, state.packet_ids) == ([], [], set())
    assert state.receive_maximum > 65535 and state.alias_maximum == 0

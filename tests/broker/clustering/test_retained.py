"""Retained messages and routes in the replicated map that cannot be read."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.retained import RETAINED
from strogoff.broker.clustering.routes import LASTING, LIVE, route_prefix
from strogoff.mqtt import packets
from tests.broker.clustering.theatre import Theatre

NO_RECORD = b"\xc1"
MESSAGE = RETAINED + b"\0\0"
BROKEN = [
    (MESSAGE + b"t", NO_RECORD, "retained message of the cluster is left out, key b't\\x00\\x00t'"),
    (MESSAGE + b"\xff", NO_RECORD, "invalid start byte"),
    (RETAINED + b"\0\1\xff", NO_RECORD, "invalid start byte"),
    (route_prefix("", "n1", LIVE) + b"x", NO_RECORD, "of route"),
    (route_prefix("", "n1", LASTING), NO_RECORD, "route key"),
]


@pytest.mark.parametrize(("key", "value", "said"), BROKEN)
def test_what_cannot_be_read_stops_nobody(key: bytes, value: bytes, said: str) -> None:
    """It comes to every node, and again to each that starts."""
    theatre = Theatre(3)
    theatre[1].client("before").publish("kept", b"1", 1, retain=True)
    member = theatre[1].host.member
    assert member is not None
    member.metadata.put(key, value)
    theatre.pass_s(1.0)
    assert [sum(said in line for _, line in spot.host.lines) for spot in theatre.spots] == [0, 1, 1]
    theatre[3].kill()
    theatre[3].start()
    theatre.whole()
    theatre[1].client("writer").publish("u", b"2", 1, retain=True)
    reader = theatre[3].client("reader")
    reader.send(packets.Subscribe(1, [packets.SubscribeOptions("#", 1)], None))
    assert sorted(reader.payloads()) == [b"1", b"2"]

"""Drops of packets on a connection: counting, hitting, and impossible requests."""

from __future__ import annotations

import asyncio

import pytest

from strogoff.testing.faults.packet_drops import Drop, FaultError


def test_the_nth_is_hit_once() -> None:
    """Other packets are not counted, later ones pass."""
    drop = Drop("puback", nth=2, direction="out", client="tx")
    asked = [("PUBACK", "out", "tx"), ("PUBACK", "in", "tx"), ("PUBACK", "out", "rx"), ("PUBREC", "out", "tx")]
    assert [drop.hits(*each) for each in asked] == [False] * 4
    assert drop.hits("PUBACK", "out", "tx") and drop.dropped
    assert not drop.hits("PUBACK", "out", "tx")
    assert str(drop) == "drop PUBACK 2 out of tx (dropped), then go on"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"packet": "PUBAK"}, "packet 'PUBAK' is not one of CONNECT, CONNACK"),
        ({"packet": "PUBACK", "nth": 0}, "counted from 1"),
        ({"packet": "PUBACK", "direction": "up"}, "'in' (client to broker)"),
        ({"packet": "PUBACK", "then": "explode"}, "'go on' or 'cut'"),
        ({"packet": "SUBSCRIBE"}, "no SUBSCRIBE goes out: direction='in'"),
        ({"packet": "connack", "direction": "in"}, "no CONNACK goes in: direction='out'"),
        ({"packet": "CONNECT", "direction": "in", "client": "c"}, "leave `client` out"),
    ],
)
def test_unknown_names_are_errors(arguments: dict[str, object], text: str) -> None:
    """The error lists the possible names."""
    with pytest.raises(FaultError) as caught:
        Drop(**arguments)  # type: ignore[arg-type]
    assert text in str(caught.value)


def test_waiting_for_it() -> None:
    """The wait ends with the drop, or with an error."""

    async def test() -> None:
        drop = Drop("PUBLISH")
        with pytest.raises(TimeoutError, match=r"drop PUBLISH 1 out \(0 seen\), then go on did not happen within 0 s"):
            await drop.happened(timeout=0)
        waiting = asyncio.create_task(drop.happened())
        drop.hits("PUBLISH", "out", "")
        await waiting

    asyncio.run(test())

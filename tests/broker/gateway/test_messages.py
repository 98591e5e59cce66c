"""The bytes of the relay's messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.broker.connection.handshake import Admission
from strogoff.broker.connection.transport import ConnectionOrigin
from strogoff.broker.gateway.messages import (
    DATA,
    FROM_PRIMARY,
    GONE,
    OPENED,
    ROOM,
    MalformedRelay,
    decode_opening,
    encode_opening,
    epoch_body,
    epoch_in,
    head,
    read,
)
from strogoff.mqtt import packets as p

from ...harness.listeners import tcp


def admission(**fields: Any) -> Admission:
    facts: dict[str, Any] = {
        "mountpoint": "m", "client_id": "c", "username": "u", "modifiers": {}, "auth_method": None,
        "message_limit": 100, "packet_limit": 0, "problem_information": True,
    }  # fmt: skip
    return Admission(**{**facts, **fields})


def test_the_numbers_of_the_kinds_never_change() -> None:
    assert (DATA, ROOM, GONE, OPENED, FROM_PRIMARY) == (5, 6, 10, 3, 128)
    assert head(DATA, 2, 3) == b"\x05\x02\0\0\0\0\0\0\0\x03\0\0\0"


def test_messages_of_an_item() -> None:
    number = (7 << 40) | 9
    item = head(DATA, number, 3) + b"abc" + head(ROOM | FROM_PRIMARY, 1, 70_000) + head(GONE, 2, 0)
    assert read(item) == [(DATA, number, 3, b"abc"), (ROOM | FROM_PRIMARY, 1, 70_000, b""), (GONE, 2, 0, b"")]
    assert read(b"") == []


@pytest.mark.parametrize("item", [b"x", head(DATA, 1, 2) + b"a", head(ROOM, 1, 1) + b"\0"])
def test_items_that_are_cut(item: bytes) -> None:
    with pytest.raises(MalformedRelay):
        read(item)


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_one_error(item: bytes) -> None:
    try:
        read(item)
    except MalformedRelay as error:
        assert str(error)
    try:
        decode_opening(item)
    except MalformedRelay as error:
        assert str(error)


def test_epochs() -> None:
    assert epoch_in(epoch_body(1 << 40)) == 1 << 40
    with pytest.raises(MalformedRelay, match="an epoch of 1 bytes"):
        epoch_in(b"1")


@pytest.mark.parametrize("version", [3, 4, 5])
def test_an_opening_keeps_everything_that_matters(version: int) -> None:
    listener = tcp(mountpoint="m", auth_plugins=("a",), authz_plugins=("b", "c"), keypasswd="secret", keyfile="key")
    tls = {"version": "TLSv1.3", "cipher": "X", "certificate": b"\0"}
    origin = ConnectionOrigin("192.0.2.1", 5, listener, "name", tls, "wss")
    properties = {"user_property": [("a", "b"), ("a", "c")]} if version == 5 else None
    packet = p.Connect("c", version, True, 10, "u", None, p.Will("t", b"w", 1, properties=properties), properties)
    facts = admission(modifiers={"max_inflight_messages": 3, "properties": dict(properties or {})})
    data = encode_opening(9, origin, packet, facts)
    assert b"secret" not in data and b"key" not in data
    opening = decode_opening(data)
    assert (opening.epoch, opening.packet(), opening.admission) == (9, packet, facts)
    found = opening.origin()
    assert found.connection_options() == origin.connection_options() and found.username == "name"
    assert (found.listener.authz_plugins, found.listener.mountpoint) == (("b", "c"), "m")


def test_openings_that_cannot_be_sent() -> None:
    origin = ConnectionOrigin("192.0.2.1", 5, tcp())
    with pytest.raises(ValueError, match="cannot be sent to another node"):
        encode_opening(1, origin, p.Connect("c"), admission(modifiers={"odd": object()}))
    with pytest.raises(ValueError, match="524288 are allowed"):
        encode_opening(1, origin, p.Connect("c"), admission(modifiers={"large": bytes(1 << 20)}))


@pytest.mark.parametrize("pairs", [[5], [["only"]], 7, [["a", "b", "c"]]])
def test_an_opening_with_wrong_user_properties_is_malformed(pairs: Any) -> None:
    origin = ConnectionOrigin("h", 5, tcp())
    data = encode_opening(1, origin, p.Connect("c"), admission(modifiers={"properties": {"user_property": pairs}}))
    with pytest.raises(MalformedRelay, match="user_property"):
        decode_opening(data)


def test_openings_that_cannot_be_used() -> None:
    opening = decode_opening(encode_opening(1, ConnectionOrigin("h", 5, tcp()), p.Connect("c"), admission()))
    opening.connect = b"\xc0\0"
    with pytest.raises(MalformedRelay, match="no CONNECT"):
        opening.packet()
    opening.listener = {"port": "x"}
    with pytest.raises(MalformedRelay, match="listener"):
        opening.origin()

"""The hello: different versions, fields of later versions, and malformed bytes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strogoff.cluster.identity import NAME_MOST
from strogoff.cluster.links.frames import MalformedFrame
from strogoff.cluster.links.hello import (
    PeerInfo,
    Welcome,
    agree,
    decode_hello,
    decode_welcome,
    disagreement,
    encode_hello,
    encode_welcome,
)
from strogoff.cluster.links.links import Lane

from .link_harness import LinkHarness, join

ME = PeerInfo("a", 3, "disk", "process", "cluster", "127.0.0.1:1", 1, 1)


def speaking(version: int, oldest: int) -> PeerInfo:
    return msgspec.structs.replace(ME, version=version, oldest=oldest)


def test_a_round_trip_changes_nothing() -> None:
    assert decode_hello(encode_hello(ME)) == ME
    welcome = Welcome(ME, 1, {0: 0, 2: 77})
    assert decode_welcome(encode_welcome(welcome)) == welcome


@pytest.mark.parametrize(
    ("mine", "theirs", "version"),
    [((1, 1), (1, 1), 1), ((1, 1), (3, 1), 1), ((3, 2), (4, 1), 3), ((1, 1), (3, 2), None), ((5, 4), (3, 1), None)],
)
def test_the_lower_of_the_newest_versions_is_used(
    mine: tuple[int, int], theirs: tuple[int, int], version: int | None
) -> None:
    """This holds if both nodes support it."""
    assert agree(speaking(*mine), speaking(*theirs)) == agree(speaking(*theirs), speaking(*mine)) == version


def test_a_refused_version_is_explained() -> None:
    assert disagreement(ME, speaking(3, 2)) == "a speaks the versions 2 to 3 of the protocol, a 1 to 1"


def test_a_newer_version_may_add_fields() -> None:
    data = msgspec.msgpack.encode([*msgspec.to_builtins(speaking(3, 1)), {"new": 1}, "more"])
    assert decode_hello(data) == speaking(3, 1)


@pytest.mark.parametrize("wrong", [{"boot": 1 << 32}, {"boot": -1}, {"node": "n" * (NAME_MOST + 1)}])
def test_a_hello_that_no_key_on_disk_can_hold_is_malformed(wrong: dict[str, Any]) -> None:
    with pytest.raises(MalformedFrame, match="hello of"):
        decode_hello(encode_hello(msgspec.structs.replace(ME, **wrong)))


@pytest.mark.parametrize("decode", [decode_hello, decode_welcome])
@pytest.mark.parametrize("data", [b"", b"\x00", b"GET / HTTP/1.1\r\n", msgspec.msgpack.encode(["a", "b"])])
def test_malformed_hellos_are_refused(decode: object, data: bytes) -> None:
    with pytest.raises(MalformedFrame, match=f"of {len(data)} bytes"):
        decode(data)  # type: ignore[operator]


def test_a_rolling_upgrade() -> None:
    """A node with versions 1 to 3 and a node with version 1 work together; a node without version 1 is refused with the
    reason.
    """
    world = LinkHarness()
    world.spoken = {"a": (1, 1), "b": (3, 1), "c": (3, 2)}
    a, b, c = (world.node(name) for name in "abc")
    join(a, b, c)
    a.links.send("b", Lane.PUBLISH, b"x")
    world.loop.run_for(5)
    assert b.items(Lane.PUBLISH) == [b"x"]
    assert a.links._out["b"].version == b.links._out["a"].version == 1 and b.links._out["c"].version == 3
    assert not a.links.up("c") and not c.links.up("a")
    assert any("a speaks the versions 1 to 1 of the protocol, c 2 to 3" in text for text in c.logs)

"""Encoding of lease requests and replies."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.membership.messages import (
    LeaseReply,
    LeaseRequest,
    MalformedLease,
    decode_reply,
    decode_request,
    encode_lease,
)


def test_a_round_trip_changes_nothing() -> None:
    request = LeaseRequest("a", 1, "p", 7, ("b", "c"), 4, 2, (("b", 1), ("c", 3)), True)
    assert decode_request(encode_lease(request)) == request
    reply = LeaseReply("a", 1, "p", 7, 2, 1_700_000_000_000, ("b",))
    assert decode_reply(encode_lease(reply)) == reply


def test_a_node_of_a_former_version_has_no_slow_disk() -> None:
    request = decode_request(msgspec.msgpack.encode(["a", 1, "p", 1, [], 0, 0, [], False, True]))
    assert request.slow_ms == 0
    assert decode_reply(msgspec.msgpack.encode(["a", 1, "p", 7, 2, 5, ["b"], 9])).slow == ()
    slow = LeaseReply("a", 1, "p", 7, 2, 5, slow=(("b", 700),))
    assert decode_reply(encode_lease(slow)) == slow
    assert decode_request(encode_lease(LeaseRequest("a", 1, "p", 7, (), 4, 2, slow_ms=700))).slow_ms == 700
    with pytest.raises(MalformedLease):
        decode_reply(msgspec.msgpack.encode(["a", 1, "p", 7, 2, 5, [], 9, [["b", -1]]]))


def test_a_node_of_a_former_version_does_not_say_cluster_time() -> None:
    former = decode_request(msgspec.msgpack.encode(["a", 1, "p", 1, [], 0, 0, [], False, True, 0]))
    assert former.cluster_ms is None
    for cluster_ms in (None, 1_700_000_000_000):
        request = msgspec.structs.replace(former, cluster_ms=cluster_ms)
        assert decode_request(encode_lease(request)) == request


def test_malformed_fields_are_named() -> None:
    with pytest.raises(MalformedLease, match=r"request of .*at `\$\[3\]`"):
        decode_request(msgspec.msgpack.encode(["a", 1, "p", 0, [], 0, 0]))
    with pytest.raises(MalformedLease, match="reply of 1 bytes"):
        decode_reply(b"\xc1")


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_malformed(data: bytes) -> None:
    for decode in (decode_request, decode_reply):
        with suppress(MalformedLease):
            decode(data)

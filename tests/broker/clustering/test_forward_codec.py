"""Encoding of messages between nodes: a round trip changes nothing, and a malformed frame is an error that says why."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.broker.clustering.forward_codec import (
    OPEN_PER_ITEM,
    ForwardedMessage,
    Head,
    MalformedForward,
    OpenMids,
    decode_forward,
    decode_open_mids,
    encode_forward,
    encode_head,
    encode_open_mids,
    is_open_mids,
    split_head,
)
from strogoff.broker.queues.message import Message, Origin
from strogoff.broker.queues.records import Origins
from strogoff.cluster.identity import NAME_MOST
from strogoff.storage.keys import seen_key

ORIGIN = Origin("n1", 3)
COUNTS = st.integers(0, 2**62)
TEXTS = st.text(st.characters(exclude_characters="+#\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
PLAIN = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
PROPERTIES = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "content_type": st.text(PLAIN, max_size=5),
        "payload_format_indicator": st.integers(0, 1),
        "correlation_data": st.binary(max_size=5),
        "user_property": st.lists(st.tuples(st.text(PLAIN, max_size=3), st.text(PLAIN, max_size=3)), max_size=3),
    },
)
MESSAGES = st.builds(
    Message,
    st.text(PLAIN, max_size=5),
    TEXTS,
    st.binary(max_size=40),
    st.integers(0, 2),
    st.booleans(),
    PROPERTIES,
    COUNTS,
    st.text(PLAIN, max_size=10),
    st.just(ORIGIN),
    COUNTS,
)


def a_message(**changes: Any) -> Message:
    fields = {
        "mountpoint": "",
        "topic": "a/b",
        "payload": b"x",
        "qos": 1,
        "retain": False,
        "properties": None,
        "expires_at": 0,
        "publisher": "p",
        "origin": ORIGIN,
        "counter": 9,
    }
    return Message(**{**fields, **changes})


@given(MESSAGES, st.lists(TEXTS, max_size=3), st.tuples(COUNTS, COUNTS))
def test_a_round_trip_changes_nothing(message: Message, filters: list[str], stable: tuple[int, int]) -> None:
    groups = tuple([f"$share/g/{text}" for text in filters])
    data = encode_forward(message, groups, stable)
    assert decode_forward(data, Origins()) == ForwardedMessage(message, groups, stable)


SLOT_SETS = st.sets(st.integers(0, 255)).map(lambda slots: tuple(sorted(slots)))


NUMBERS = st.integers(0, 2**63)


@given(st.integers(0, 2**32 - 1), st.booleans(), SLOT_SETS, NUMBERS, NUMBERS, st.booleans(), st.binary())
def test_a_head_says_for_whom_a_copy_is(
    since: int, live: bool, slots: tuple[int, ...], number: int, table: int, again: bool, body: bytes
) -> None:
    head = Head(since, live, slots, number, table, again) if slots else Head(since, live)
    data = encode_head(head)
    assert split_head(data + body) == (head, body)
    for end in range(len(data)):
        with pytest.raises(MalformedForward, match="head"):
            split_head(data[:end])


@pytest.mark.parametrize("slots", [(2, 1), (1, 1)])
def test_slots_in_a_head_are_in_order(slots: tuple[int, ...]) -> None:
    with pytest.raises(MalformedForward, match="wrong slots"):
        split_head(encode_head(Head(0, True, slots, 1, 1)))


def test_the_cached_encoding_of_a_message_is_not_sent() -> None:
    message = a_message()
    fresh = encode_forward(message, (), (3, 9))
    message.shared_slots, message.frame_key, message.head, message.tail = frozenset({1}), 4, b"head", b"tail"
    assert encode_forward(message, (), (3, 9)) == fresh
    assert decode_forward(fresh, Origins()).message == a_message()


def test_messages_of_one_boot_share_their_origin() -> None:
    origins = Origins()
    data = encode_forward(a_message(), (), (0, 0))
    assert decode_forward(data, origins).message.origin is decode_forward(data, origins).message.origin


def fields_of(data: bytes) -> list[Any]:
    fields: list[Any] = msgspec.msgpack.decode(data)
    return fields


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        (0, ["a/b"], "groups: 'a/b' is no shared subscription"),
        (0, ["$share//b"], "groups: shared subscription without a group"),
        (1, [-1, 0], "`int` >= 0"),
        (2, b"", "`str`, got `bytes`"),
        (3, "a/+", "topic 'a/+' is no topic name"),
        (3, "", "topic '' is no topic name"),
        (5, 3, "`int` <= 2"),
        (7, {"user_property": 7}, "property user_property"),
        (7, {"user_property": [["only"]]}, "property user_property"),
        (7, {"user_property": [5]}, "property user_property"),
        (7, {"content_type": 5}, "content_type must be text"),
        (7, {"message_expiry_interval": 1 << 32}, "message_expiry_interval must be from 0"),
        (7, {"topic": "a"}, "no property 'topic'"),
        (7, {"content_type": msgspec.Raw(b"\x91" * 100_000 + b"\x90")}, "recursion"),
        (10, "n" * 16384, "length <= 16383"),
        (10, "#256", "'#256' is no slot"),
        (10, "#x", "'#x' is no slot"),
        (11, "x", "`int`, got `str`"),
        (11, 1 << 32, "`int` <= 4294967295"),
        (12, -1, "`int` >= 0"),
    ],
)
def test_malformed_fields(place: int, value: Any, complaint: str) -> None:
    fields = fields_of(encode_forward(a_message(), (), (3, 1)))
    fields[place] = value
    with pytest.raises(MalformedForward, match="forwarded message") as caught:
        decode_forward(msgspec.msgpack.encode(fields), Origins())
    assert complaint in str(caught.value)


def test_malformed_frames() -> None:
    data = encode_forward(a_message(), (), (3, 1))
    fields = fields_of(data)
    for wrong in (b"", data[:-1], data + b"\0", msgspec.msgpack.encode([*fields, 0]), msgspec.msgpack.encode({})):
        with pytest.raises(MalformedForward):
            decode_forward(wrong, Origins())


@given(st.binary(max_size=60))
def test_random_bytes_raise_one_kind_of_error(noise: bytes) -> None:
    with pytest.raises(MalformedForward):
        decode_forward(noise, Origins())


@pytest.mark.parametrize("count", [0, 1, OPEN_PER_ITEM, OPEN_PER_ITEM + 1, 3 * OPEN_PER_ITEM - 1])
def test_open_handshakes_are_split_without_losing_a_mid(count: int) -> None:
    mids = [(1 + number // 5000, number) for number in range(count)]
    pieces = [decode_open_mids(data) for data in encode_open_mids((9, 7), mids)]
    assert [mid for piece in pieces for mid in piece.mids] == mids
    assert pieces[0].first == (0, 0) and pieces[-1].end == (9, 7)
    assert all(before.end == after.first for before, after in pairwise(pieces))
    assert all(piece.first <= mid < piece.end for piece in pieces for mid in piece.mids)


def test_open_handshakes_and_messages_are_not_confused() -> None:
    (data,) = encode_open_mids((9, 7), [(3, 1)])
    assert is_open_mids(data) and not is_open_mids(encode_forward(a_message(), (), (3, 1)))
    with pytest.raises(MalformedForward):
        decode_forward(data, Origins())


@pytest.mark.parametrize("wrong", [b"", b"\x93", [1, 2], [[1, 2], [3, 4], [[-1, 2]]], [[1, 2], [3, 4], [[1]]]])
def test_malformed_open_handshakes(wrong: Any) -> None:
    with pytest.raises(MalformedForward, match="open QoS 2 handshakes"):
        decode_open_mids(wrong if isinstance(wrong, bytes) else msgspec.msgpack.encode(wrong))


@pytest.mark.parametrize("origin", ["#256", "#x", "n1"])
def test_open_handshakes_of_no_slot_are_malformed(origin: str) -> None:
    with pytest.raises(MalformedForward, match="is no slot"):
        decode_open_mids(encode_open_mids((9, 7), [(3, 1)], origin)[0])


def test_the_largest_numbers_fit_into_a_key() -> None:
    message = a_message(origin=Origin("n" * NAME_MOST, 2**32 - 1), counter=2**64 - 1)
    found = decode_forward(encode_forward(message, (), (3, 1)), Origins()).message
    assert seen_key("x", 1, 1) < seen_key(*found.mid)


def test_a_list_of_open_handshakes_names_its_range() -> None:
    assert decode_open_mids(encode_open_mids((2, 5), [(2, 1)])[0]) == OpenMids((0, 0), (2, 5), [(2, 1)])

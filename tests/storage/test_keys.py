"""The key layout: keys of one client are never among those of another, and keys sort by their numbers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.storage import keys

NAMES = st.text(max_size=12)


@given(NAMES, NAMES, NAMES, NAMES)
def test_no_key_of_a_client_begins_with_another_clients(mp1: str, id1: str, mp2: str, id2: str) -> None:
    if (mp1, id1) == (mp2, id2):
        return
    first, second = keys.client_key(7, mp1, id1), keys.client_key(7, mp2, id2)
    assert not first.startswith(second)
    assert not second.startswith(first)


@given(st.binary(min_size=1, max_size=20), st.binary(max_size=5))
def test_after_sorts_behind_every_key_with_the_prefix(prefix: bytes, rest: bytes) -> None:
    if not prefix.rstrip(b"\xff"):
        with pytest.raises(ValueError, match="no key sorts after"):
            keys.after(prefix)
        return
    assert prefix + rest < keys.after(prefix)
    assert not keys.after(prefix).startswith(prefix)


def test_kinds_of_keys_do_not_mix() -> None:
    client = keys.client_key(1, "", "c")
    made = [
        keys.session_key(client),
        keys.queue_prefix(client, 1),
        keys.subscription_prefix(client, 1),
        keys.inbound_prefix(client, 1),
        keys.payload_key(1, b"mid"),
        keys.payload_count_key(1, b"mid"),
        keys.will_key(1, 1),
        keys.local_session_key(client),
        keys.local_will_key(1, 1),
        keys.cleanup_key(keys.queue_prefix(client, 1)),
        keys.reserved_key(1),
        keys.retained_prefix(""),
    ]
    kinds = [key[:1] for key in made]
    assert len(set(kinds)) == len(kinds)
    assert not set(kinds) & {b"m", b"c", b"l", b"g"}, "former versions wrote these without a slot"


@given(st.integers(0, 255))
def test_the_second_byte_of_the_keys_of_sessions_is_the_slot(slot: int) -> None:
    client = keys.client_key(slot, "", "c")
    prefix = keys.queue_prefix(client, 1)
    made = [
        keys.session_key(client),
        prefix,
        keys.subscription_prefix(client, 1),
        keys.inbound_prefix(client, 1),
        keys.payload_key(slot, b"mid"),
        keys.payload_count_key(slot, b"mid"),
        keys.will_key(slot, 1),
        keys.local_session_key(client),
        keys.local_will_key(slot, 1),
        keys.cleanup_key(prefix),
        keys.reserved_key(slot),
    ]
    assert {key[1] for key in made} == {slot}


def test_the_prefix_that_a_marker_of_a_deletion_is_for() -> None:
    prefix = keys.queue_prefix(keys.client_key(3, "m", "c"), 1 << 63)
    assert keys.parse_cleanup_key(keys.cleanup_key(prefix)) == prefix


def test_wills_of_a_slot_are_in_the_order_of_their_numbers() -> None:
    assert keys.will_key(1, 255) < keys.will_key(1, 256) < keys.will_key(1, 1 << 63)


def test_a_later_incarnation_comes_later() -> None:
    client = keys.client_key(1, "", "c")
    assert keys.queue_prefix(client, 255) < keys.queue_prefix(client, 256)


def test_mids_are_ordered_by_counter_and_never_mixed_up() -> None:
    assert keys.message_id("n", 1, 255) < keys.message_id("n", 1, 256) < keys.message_id("n", 2, 0)
    assert keys.message_id("n1", 1, 1) != keys.message_id("n", 1, 1)


@given(NAMES, st.integers(0, 2**32 - 1), st.integers(1, 2**64 - 1))
def test_watermark_keys_and_owed_keys_are_parsed(node: str, boot: int, number: int) -> None:
    assert keys.parse_watermark_key(keys.watermark_key(node, boot)) == (node, boot, 0)
    assert keys.parse_watermark_key(keys.owed_key(node, boot, number)) == (node, boot, number)


def test_owed_keys_sort_after_their_watermark_by_number() -> None:
    made = [
        keys.watermark_key("n", 1),
        keys.owed_key("n", 1, 255),
        keys.owed_key("n", 1, 256),
        keys.watermark_key("n", 2),
    ]
    assert made == sorted(made)


def test_the_kinds_of_a_slot_are_those_that_the_layout_lists_with_a_slot() -> None:
    layout = re.findall(r"^    (\w)( \w+|)", str(keys.__doc__), re.MULTILINE)
    listed = sorted(kind for kind, second in layout if second == " slot")
    assert sorted((keys.SLOT_KINDS + keys.LOCAL_KINDS).decode()) == listed

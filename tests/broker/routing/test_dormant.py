"""A subscription as bytes has everything that a subscription has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strogoff.broker.routing.dormant import (
    DormantSession,
    client_of,
    pack_head,
    parse_subscriber_key,
    split,
    subscriber_key,
    unpack_head,
)
from strogoff.storage.keys import client_key

OPTIONS = st.tuples(st.integers(0, 2), st.booleans(), st.booleans(), st.integers(0, 2))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@given(OPTIONS, st.integers(0, 268_435_455), st.none() | TEXTS, st.integers(0, 255), TEXTS, TEXTS)
def test_every_part_comes_back(
    options: tuple[int, bool, bool, int],
    identifier: int,
    group: str | None,
    slot: int,
    mountpoint: str,
    client_id: str,
) -> None:
    client = client_key(slot, mountpoint, client_id)
    packed = pack_head(options, identifier, group is not None) + subscriber_key(client, group)
    head, key = split(packed)
    assert unpack_head(head) == (*options, identifier)
    assert parse_subscriber_key(head, key) == (client, group)
    assert client_of(packed) == client


def test_most_subscriptions_take_one_byte_beside_their_client_key() -> None:
    assert pack_head((2, True, True, 2), 0, True) == b"\xae"
    assert pack_head((1, False, False, 0), 5, False) == b"\x41\x00\x00\x00\x05"


def test_a_dormant_session_is_durable_and_offline() -> None:
    session = DormantSession(client_key(7, "m", "c"))
    assert (session.durable, session.online, session.ending, session.mountpoint) == (True, False, False, "m")
    assert session.key == client_key(7, "m", "c")

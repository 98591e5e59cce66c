"""Records on disk: a round trip changes nothing, older records stay readable, and other bytes give an error."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strogoff.broker.queues import records
from strogoff.broker.queues.message import Message, Origin

PROPERTIES = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "content_type": st.text(max_size=5),
        "correlation_data": st.binary(max_size=5),
        "payload_format_indicator": st.integers(0, 1),
        "user_property": st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), min_size=1, max_size=3),
    },
)


@given(st.text(max_size=9), st.binary(max_size=50), st.integers(0, 2), st.booleans(), PROPERTIES, st.integers(0, 2**50))
def test_a_message_comes_back_as_it_was(
    topic: str, payload: bytes, qos: int, retain: bool, properties: dict[str, Any] | None, expires_at: int
) -> None:
    message = Message("mp", topic, payload, qos, retain, properties, expires_at, "p", Origin("n", 3), 99)
    value = records.encode(records.to_record(message))
    assert records.decode_message(b"m", value, "mp", records.Origins()) == message


def test_origins_are_shared() -> None:
    origins = records.Origins()
    assert origins.get("n", 1) is origins.get("n", 1)
    assert origins.get("n", 1) is not origins.get("n", 2)


def test_a_record_that_cannot_be_read_names_its_key() -> None:
    for decode in (
        records.decode_session,
        records.decode_entry,
        records.decode_subscription,
        records.decode_inbound,
    ):
        with pytest.raises(records.RecordError, match="key b'somewhere'"):
            decode(b"somewhere", b"\xc1 no msgpack")
        with pytest.raises(records.RecordError):
            decode(b"somewhere", msgspec.msgpack.encode("no record"))


@given(st.binary(max_size=60))
@example(b"\x9f\xa1\x80")
def test_any_bytes_give_a_record_or_an_error(value: bytes) -> None:
    for decode in (records.decode_session, records.decode_entry, records.decode_subscription, records.decode_inbound):
        try:
            decode(b"key", value)
        except records.RecordError:
            continue


def test_an_entry_of_an_older_version_has_no_time() -> None:
    value = msgspec.msgpack.encode([records.QUEUED, 3, 1, False, [7], None, b"mid", "$share/g/t"])
    assert records.decode_entry(b"q", value) == records.EntryRecord(0, 3, 1, False, (7,), None, b"mid", "$share/g/t", 0)


def test_a_field_that_a_later_version_added_is_passed_over() -> None:
    value = msgspec.msgpack.encode([1, False, True, 2, 7, False, "", "from a later version"])
    assert records.decode_subscription(b"b", value) == records.SubscriptionRecord(1, False, True, 2, 7)

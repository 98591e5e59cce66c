"""Encoding of Raft messages: a round trip changes nothing, and malformed bytes raise one error with the reason."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.raft.messages import (
    Change,
    Configuration,
    Entry,
    Kind,
    MalformedMessage,
    Message,
    MessageKind,
    Snapshot,
    bootstrap,
    decode_change,
    decode_message,
    empty,
    encode_change,
    encode_message,
)

PLAIN = [kind for kind in MessageKind if kind is not MessageKind.SNAPSHOT]


@given(st.sampled_from(PLAIN), st.integers(0, 1 << 60), st.binary(max_size=50), st.booleans(), st.text(max_size=9))
def test_round_trip(kind: MessageKind, number: int, data: bytes, flag: bool, peer: str) -> None:
    entries = (Entry(number + 1, number + 1, Kind.COMMAND, data), Entry(number + 2, number + 1, Kind.EMPTY, b""))
    message = Message(kind, peer, "b", number + 1, number, number, number, entries, flag, number, number, None, flag)
    assert decode_message(encode_message(message)) == message


def test_a_snapshot_round_trips() -> None:
    snapshot = Snapshot(4, 2, Configuration(("a",), ("b",)), b"state")
    message = Message(MessageKind.SNAPSHOT, "a", "b", 3, snapshot=snapshot)
    assert decode_message(encode_message(message)) == message


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (Message(MessageKind.APPEND, "a", "b", 3, -1), ">= 0"),
        (Message(MessageKind.SNAPSHOT, "a", "b", 3), "SNAPSHOT"),
        (Message(MessageKind.APPEND, "a", "b", 3, snapshot=Snapshot(1, 1, Configuration(), b"")), "APPEND"),
        (Message(MessageKind.APPEND, "a", "b", 3, 4, 2, entries=(Entry(6, 2, 0, b""),)), "entry 6 of term 2 behind"),
        (Message(MessageKind.APPEND, "a", "b", 3, 4, 2, entries=(Entry(5, 1, 0, b""),)), "entry 5 of term 1 behind"),
        (Message(MessageKind.APPEND, "a", "b", 3, 4, 2, entries=(Entry(5, 4, 0, b""),)), "in APPEND of term 3"),
        (Message(MessageKind.APPEND, "a", "b", 3, 4, 2, entries=(Entry(5, 3, 7, b""),)), "<= 2"),
        (Message(MessageKind.APPEND, "a", "b", 3, 4, 2, entries=(Entry(5, 3, 1, b"x"),)), "not a change"),
    ],
)
def test_impossible_contents_are_refused(message: Message, says: str) -> None:
    with pytest.raises(MalformedMessage, match=says):
        decode_message(encode_message(message))


@given(st.binary(max_size=40))
def test_noise_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_message(data)


def test_a_field_added_at_the_end_by_a_later_version_is_ignored() -> None:
    message = Message(MessageKind.HEARTBEAT, "a", "b", 3)
    later = [*msgspec.msgpack.decode(encode_message(message)), "new"]
    assert decode_message(msgspec.msgpack.encode(later)) == message


def test_changes() -> None:
    change = Change("voter", "n1/uuid")
    assert decode_change(encode_change(change)) == change
    for wrong in (["voter", ""], ["boss", "a"], ["voter"], "voter"):
        with pytest.raises(MalformedMessage):
            decode_change(msgspec.msgpack.encode(wrong))


def test_changes_in_changes_are_malformed() -> None:
    inner = Change("voter", "a", (Change("voter", "b", (Change("voter", "c"),)),))
    deep = b"\x93\xa5voter\xa1a\x91" * 5000 + b"\x92\xa5voter\xa1a"
    for data in (encode_change(inner), deep):
        with pytest.raises(MalformedMessage, match="not a change of the configuration"):
            decode_change(data)
        entry = Entry(1, 1, Kind.CHANGE, data)
        with pytest.raises(MalformedMessage):
            decode_message(encode_message(Message(MessageKind.APPEND, "a", "b", 1, entries=(entry,))))


def test_empty_and_bootstrapped_states() -> None:
    assert empty().hard.term == 0 and empty().entries == []
    saved = bootstrap("a")
    assert saved.hard.commit == saved.entries[-1].index == 1
    assert decode_change(saved.entries[0].data) == Change("voter", "a")

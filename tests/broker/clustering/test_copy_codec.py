"""Items of the lane REPLICA: every item comes back as it was, and nothing malformed gets through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.broker.clustering.copy_codec import (
    SHARED_BYTES,
    Begin,
    Changes,
    ChangesWriter,
    Complete,
    CopyAttempt,
    Declined,
    Different,
    Digests,
    End,
    Over,
    Part,
    Ready,
    Rows,
    decode_answer,
    decode_item,
    encode,
    pairs,
    unpacked,
)
from strogoff.broker.clustering.slot_comparison import MOST, Digest
from strogoff.cluster.links.frames import MalformedFrame
from strogoff.storage.keys import payload_key

ATTEMPT = CopyAttempt(7, 40, 99)
OTHER = CopyAttempt(8, 41, 100)


@pytest.mark.parametrize(
    "item",
    [
        Begin(ATTEMPT, 12),
        Rows(ATTEMPT, [b"q\x07a", b"1"], b"", b""),
        End(ATTEMPT),
        Over(ATTEMPT),
        Changes([Part(ATTEMPT, [])], []),
    ],
)
def test_an_item_comes_back(item: Begin | Rows | End | Over | Changes) -> None:
    assert decode_item(encode(item)) == item


def test_digests_and_their_answer_come_back() -> None:
    item = Digests(ATTEMPT, 3, b"q\x07a", [Digest(b"q\x07b", bytes(16)), Digest(b"", b"\xff" * 16)])
    assert decode_item(encode(item)) == item
    for compared in (None, b"q\x07a"):
        answer = Different(ATTEMPT, 3, [0, 1], compared)
        assert decode_answer(encode(answer)) == answer


@pytest.mark.parametrize("answer", [Ready(ATTEMPT, True), Complete(ATTEMPT), Declined(ATTEMPT, "full")])
def test_an_answer_comes_back(answer: Ready | Complete | Declined) -> None:
    assert decode_answer(encode(answer)) == answer


def _read(data: bytes) -> dict[int, list[tuple[bytes, bytes | None]]]:
    item = decode_item(data)
    assert isinstance(item, Changes)
    return {part.attempt.slot: list(unpacked(item, part)) for part in item.parts}


keys_of_slot_7 = st.binary(max_size=9).map(lambda tail: b"q\x07" + tail)


@given(st.lists(st.tuples(keys_of_slot_7, st.none() | st.binary(max_size=600)), unique_by=lambda row: row[0]))
def test_changes_come_back_in_their_order(rows: list[tuple[bytes, bytes | None]]) -> None:
    writer = ChangesWriter()
    writer.add(ATTEMPT, [each for row in rows for each in row])
    assert _read(writer.encoded()) == {7: rows}


def test_a_payload_that_two_slots_share_crosses_the_link_once() -> None:
    body = b"x" * 5000
    writer = ChangesWriter()
    writer.add(ATTEMPT, [payload_key(7, b"mid"), body, b"q\x07a", b"1"])
    writer.add(OTHER, [payload_key(8, b"mid"), bytes(bytearray(body)), b"q\x08b", None])
    data = writer.encoded()
    assert len(data) < len(body) + 200
    found = {
        7: [(payload_key(7, b"mid"), body), (b"q\x07a", b"1")],
        8: [(payload_key(8, b"mid"), body), (b"q\x08b", None)],
    }
    assert _read(data) == found


def test_payloads_that_differ_are_never_confused() -> None:
    first, second = b"x" * SHARED_BYTES, b"y" * SHARED_BYTES
    writer = ChangesWriter()
    writer.add(ATTEMPT, [payload_key(7, b"mid"), first])
    writer.add(OTHER, [payload_key(8, b"mid"), second])
    assert _read(writer.encoded()) == {7: [(payload_key(7, b"mid"), first)], 8: [(payload_key(8, b"mid"), second)]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        encode(Rows(ATTEMPT, [b"q\x08a", b"1"], b"", b"")),
        encode(Rows(ATTEMPT, [], b"q\x08a", b"")),
        encode(Rows(ATTEMPT, [], b"", b"q\x08a")),
        encode(Rows(ATTEMPT, [], b"", b"r\x07a")),
        encode(Digests(ATTEMPT, 1, b"q\x08a", [Digest(b"", b"")])),
        encode(Digests(ATTEMPT, 1, b"", [Digest(b"q\x08a", b"")])),
        encode(Digests(ATTEMPT, 1, b"", [])),
        encode(Digests(ATTEMPT, 1, b"", [Digest(b"", b"")] * (MOST + 1))),
        encode(Rows(ATTEMPT, [b"q", b"1"], b"", b"")),
        encode(Rows(ATTEMPT, [b"r\x07topic", b"1"], b"", b"")),
        encode(Rows(ATTEMPT, [b"q\x07a"], b"", b"")),
        encode(Changes([Part(ATTEMPT, [b"d\x07key", b"1"])], [])),
        encode(Changes([Part(ATTEMPT, [b"q\x07a", 0])], [])),
        encode(Changes([Part(ATTEMPT, [b"q\x07a", -1])], [b"body"])),
        encode(Changes([Part(ATTEMPT, [None, b"1"])], [])),
        encode(Changes([Part(ATTEMPT, [b"q\x07a"])], [])),
        encode(Begin(CopyAttempt(300, 40, 99), 12)),
        encode(Begin(CopyAttempt(-1, 40, 99), 12)),
        encode(End(CopyAttempt(256, 40, 99))),
    ],
)
def test_what_is_no_row_of_the_slot_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_item(data)


def test_an_answer_that_is_none_is_refused() -> None:
    for data in (encode(End(ATTEMPT)), encode(Ready(CopyAttempt(256, 40, 99), False))):
        with pytest.raises(MalformedFrame):
            decode_answer(data)


def test_rows_are_pairs() -> None:
    assert list(pairs([b"a", b"1", b"b", b"2"])) == [(b"a", b"1"), (b"b", b"2")]

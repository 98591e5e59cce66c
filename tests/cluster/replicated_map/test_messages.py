"""Encoding of map messages, and messages that no correct node sends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.replicated_map.actors import Actors, dot_of
from strogoff.cluster.replicated_map.messages import (
    Ack,
    BatchAck,
    ClockReport,
    Item,
    KeyContext,
    MalformedMapMessage,
    Part,
    PartWriter,
    Writes,
    clock_of,
    context_of,
    decode,
    encode,
    siblings_of,
)
from strogoff.cluster.replicated_map.version_vector import VersionVector


def test_a_part_is_independent_of_local_actor_numbers() -> None:
    here, there = Actors(), Actors()
    there.number("x", 1)
    clock = VersionVector(here)
    clock.add(here.number("a", 1), 0, 7)
    clock.fold("b", 3)
    writer = PartWriter(1, clock)
    writer.add(b"fk", (dot_of(here.number("a", 1), 7), b"v", dot_of(here.number("b", 2), 1), None), None)
    message = decode(encode(Writes(1, [writer.part])))
    assert isinstance(message, Writes)
    part = message.parts[0]
    theirs = clock_of(part, there)
    assert theirs.folded == {"b": 3}
    assert theirs.base(there.number("a", 1)) == 7
    numbers = [there.number(node, boot) for node, boot in part.actors]
    assert dict(zip(*[iter(siblings_of(part.items[0], numbers))] * 2, strict=True)) == {
        dot_of(there.number("a", 1), 7): b"v",
        dot_of(there.number("b", 2), 1): None,
    }


def test_a_key_context_is_independent_of_local_actor_numbers() -> None:
    here, there = Actors(), Actors()
    there.number("x", 1)
    clock, context = VersionVector(here), VersionVector(here)
    clock.add(here.number("a", 1), 0, 3)
    context.add(here.number("a", 1), 0, 5)
    context.add(here.number("b", 4), 1, 2)
    context.fold("b", 3)
    writer = PartWriter(0, clock)
    writer.add(b"tk", (dot_of(here.number("a", 1), 3), b"v"), context)
    writer.add(b"tl", (), clock)
    message = decode(encode(Writes(1, [writer.part])))
    assert isinstance(message, Writes)
    part = message.parts[0]
    key_context, nothing = [item.key_context for item in part.items]
    assert nothing is None
    assert key_context is not None
    seen = context_of(key_context, clock_of(part, there), [there.number(node, boot) for node, boot in part.actors])
    assert seen.seen == {there.number("a", 1): [0, 5], there.number("b", 4): [1, 2]}
    assert seen.folded == {"b": 3}


def test_small_messages() -> None:
    for message in (Ack(1, 2, 3), BatchAck(1, 2, 3, True)):
        assert decode(encode(message)) == message


def part(**changed: object) -> Part:
    values: dict[str, object] = {"half": 0, "actors": [("a", 1)], "seen": [[0, 4]], "folded": {}, **changed}
    return Part(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (part(half=2), "no half 2"),
        (part(actors=[("a", 0)]), "1 clocks of 1 actors"),
        (part(seen=[[0, 4], [0, 1]]), "2 clocks of 1 actors"),
        (part(seen=[[4, 1]]), "not a list of spans"),
        (part(covered_ranges=[(1, 0, 1)]), "of actor 1 of 1"),
        (part(covered_ranges=[(0, 3, 1)]), "claims dots 3 to 1"),
        (part(items=[Item(b"k", [0], [])]), "has 1 numbers"),
        (part(items=[Item(b"k", [0, 1], [b"x", b"y"])]), "2 values"),
        (part(items=[Item(b"", [0, 1], [b"x"])]), "key b''"),
        (part(items=[Item(b"k", [3, 1], [b"x"])]), "actor 3"),
        (part(items=[Item(b"k", [0, 0], [b"x"])]), "dot 0"),
        (part(items=[Item(b"k", [], [], KeyContext([(1, 0, 1)], {}))]), "of actor 1 of 1"),
    ],
)
def test_malformed(wrong: Part, says: str) -> None:
    with pytest.raises(MalformedMapMessage, match=says):
        decode(encode(ClockReport(1, [wrong])))


def test_a_boot_is_at_least_one() -> None:
    with pytest.raises(MalformedMapMessage, match="boot 0"):
        decode(encode(Ack(0, 1, 1)))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_message_or_one_kind_of_error(data: bytes) -> None:
    try:
        decode(data)
    except MalformedMapMessage as error:
        assert "metadata message" in str(error)

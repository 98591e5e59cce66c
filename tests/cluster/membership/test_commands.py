"""Encoding of commands in the log, and malformed commands."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.membership.commands import (
    Boot,
    Command,
    Join,
    Leave,
    MalformedCommand,
    Row,
    SetSlots,
    Settle,
    SetView,
    Stale,
    decode_command,
    encode_command,
)
from strogoff.cluster.slots.table import Holder, SlotRow

COMMANDS: list[Command] = [
    Settle("id", "a", "d", 1, "p", "a:1"),
    Join("a", "d", 1, "p", "a:1"),
    Boot("a", "d", 2, "q", ""),
    Leave("a"),
    Stale("a"),
    SetView(0, ()),
    SetView(3, (Row("a", 2, 1, True), Row("b", 1, 4))),
    SetView(3, (), True, slots=True),
    Settle("id", "a", "d", 1, "p", "a:1", "rack1", slots=True),
    Boot("a", "d", 2, "q", "", ((1, "p"),), "rack1"),
    SetSlots((SlotRow(255, 3, 4, Holder("a", "d", 1), (Holder("a", "d", 1), Holder("b", "e", 0))), SlotRow(0, 0, 0))),
    SetSlots((SlotRow(0, 3, 4, Holder("a", "d", 1), (Holder("a", "d", 1),)),), "b"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=repr)
def test_a_round_trip_changes_nothing(command: Command) -> None:
    assert decode_command(encode_command(command)) == command


@pytest.mark.parametrize(
    ("array", "says"),
    [
        ([9, "a"], "Invalid value 9"),
        ([3, ""], "length >= 1"),
        ([2, "a", "d", 0, "p", ""], ">= 1"),
        ([5, -1, []], ">= 0"),
        ([5, 1, [["a", 1]]], "length"),
        ([7, [[256, 1, 1, None, []]]], "< 256|<= 255"),
        ([7, [[0, 1, 1, ["", "d", 1], []]]], "length >= 1"),
        ("text", "Expected `array`"),
    ],
)
def test_malformed_fields_are_named(array: object, says: str) -> None:
    with pytest.raises(MalformedCommand, match=says):
        decode_command(msgspec.msgpack.encode(array))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_command_or_malformed(data: bytes) -> None:
    with suppress(MalformedCommand):
        decode_command(data)


def test_a_later_version_may_add_a_field() -> None:
    assert decode_command(msgspec.msgpack.encode([3, "a", False, "new"])) == Leave("a")


def test_commands_of_an_earlier_version_begin_no_table() -> None:
    assert decode_command(msgspec.msgpack.encode([0, "id", "a", "d", 1, "p", ""])) == Settle("id", "a", "d", 1, "p", "")
    assert decode_command(msgspec.msgpack.encode([5, 0, [], False])) == SetView(0, (), slots=False)
    assert decode_command(msgspec.msgpack.encode([2, "a", "d", 1, "p", "", []])) == Boot("a", "d", 1, "p", "", zone="")


def test_a_change_of_slots_of_an_earlier_version_is_of_a_primary() -> None:
    assert decode_command(msgspec.msgpack.encode([7, [[0, 1, 1]]])) == SetSlots((SlotRow(0, 1, 1),), leaving="")

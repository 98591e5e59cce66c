"""The items and messages that keep a copy of a slot on another node (docs/cluster.md#copies-of-a-slot).

Items of the lane REPLICA, from the primary to the follower, in the order in which things happened at the primary:

    Begin     a copy begins
    Digests   digests of ranges of present rows, for a follower that has kept rows of the slot
    Rows      all present rows of a range: what the follower has besides in it is deleted
    Changes   what one commit of the primary changed, in all slots that the follower copies; in front of that, what
              earlier commits changed that nobody waited for
    End       all rows were sent, or are equal
    Over      the primary has given up the attempt; another node may get the copy

Messages from the follower to the primary; each may be lost, and the primary repeats its item until it is answered:

    Ready       the follower takes the copy, and says whether it has kept rows
    Different   which ranges of Digests differ
    Complete    all rows up to End are on the follower's disk
    Declined    the follower takes no such copy now, with the reason
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from ...cluster.identity import Slot
from ...cluster.links.frames import MalformedFrame
from ...storage.keys import SLOT_KINDS
from .slot_comparison import MOST, Digest

SHARED_BYTES = 256
"""Payloads from this size on are written once in an item, whatever the number of slots that share them."""


class CopyAttempt(msgspec.Struct, frozen=True, array_like=True):
    """An attempt to copy a slot: the epoch of its primary, and a number of the primary's process."""

    slot: Slot
    epoch: int
    number: int


class Begin(msgspec.Struct, tag=1, array_like=True):
    """A copy begins. `table`: index of the slot table that the primary follows."""

    attempt: CopyAttempt
    table: int


class Rows(msgspec.Struct, tag=2, array_like=True):
    """The present rows behind the key `after` up to the key `upto`, b"" for the end of the slot: key, value, key,
    value, and so on."""

    attempt: CopyAttempt
    rows: list[bytes]
    after: bytes
    upto: bytes


class Part(msgspec.Struct, array_like=True):
    """The changes of one slot: key, value, key, value, and so on. None deletes; a number is a place in `bodies`."""

    attempt: CopyAttempt
    changes: list[bytes | int | None]


class Changes(msgspec.Struct, tag=3, array_like=True):
    """The changes of one or more commits, in their order. `bodies`: values that several slots share."""

    parts: list[Part]
    bodies: list[bytes]


class End(msgspec.Struct, tag=4, array_like=True):
    """All rows were sent."""

    attempt: CopyAttempt


class Digests(msgspec.Struct, tag=5, array_like=True):
    """Digests of ranges that follow one another; the first one begins behind the key `after`. `number` counts the items
    of this attempt."""

    attempt: CopyAttempt
    number: int
    after: bytes
    ranges: Annotated[list[Digest], msgspec.Meta(min_length=1, max_length=MOST)]


class Over(msgspec.Struct, tag=6, array_like=True):
    """The primary has given up this attempt. It has not asked the leader to put the follower into the in-sync set."""

    attempt: CopyAttempt


CopyItem = Begin | Rows | Changes | End | Digests | Over


class Ready(msgspec.Struct, tag=1, array_like=True):
    """The copy may begin. `kept`: the follower has rows of the slot."""

    attempt: CopyAttempt
    kept: bool


class Complete(msgspec.Struct, tag=2, array_like=True):
    """Everything up to `End` is on disk."""

    attempt: CopyAttempt


class Declined(msgspec.Struct, tag=3, array_like=True):
    """The copy cannot begin now."""

    attempt: CopyAttempt
    reason: str


class Different(msgspec.Struct, tag=4, array_like=True):
    """The answer to item `number`: the places of the ranges that differ, and the last key that was compared, None if
    all were."""

    attempt: CopyAttempt
    number: int
    ranges: Annotated[list[int], msgspec.Meta(max_length=MOST)]
    compared: bytes | None


CopyAnswer = Ready | Complete | Declined | Different

encode = msgspec.msgpack.Encoder().encode
_items: msgspec.msgpack.Decoder[CopyItem] = msgspec.msgpack.Decoder(CopyItem)
_answers: msgspec.msgpack.Decoder[CopyAnswer] = msgspec.msgpack.Decoder(CopyAnswer)


def decode_item(data: bytes) -> CopyItem:
    """The item. Raises `MalformedFrame`, also for a row that belongs to no slot or to another one."""
    try:
        item = _items.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedFrame(f"an item about copies of slots: {error}") from None
    if isinstance(item, Rows):
        _check(item.attempt.slot, item.rows)
        _check_range(item.attempt.slot, item.after, item.upto)
    elif isinstance(item, Digests):
        _check_range(item.attempt.slot, item.after, *[each.upto for each in item.ranges])
    elif isinstance(item, Changes):
        for part in item.parts:
            _check(part.attempt.slot, part.changes)
            if any(isinstance(each, int) and not 0 <= each < len(item.bodies) for each in part.changes[1::2]):
                raise MalformedFrame(f"changes of slot {part.attempt.slot}: a body that the item does not have")
    return item


def _check(slot: int, flat: Sequence[bytes | int | None]) -> None:
    if len(flat) % 2:
        raise MalformedFrame(f"rows of slot {slot}: a key without a value")
    for key in flat[::2]:
        if not isinstance(key, bytes) or len(key) < 2 or key[1] != slot or key[0] not in SLOT_KINDS:
            raise MalformedFrame(f"a row that does not belong to slot {slot}: {key!r:.40}")


def _check_range(slot: int, *bounds: bytes) -> None:
    for bound in bounds:
        if bound and (len(bound) < 2 or bound[1] != slot or bound[0] not in SLOT_KINDS):
            raise MalformedFrame(f"a range that does not belong to slot {slot}: {bound!r:.40}")


def decode_answer(data: bytes) -> CopyAnswer:
    """The message of a follower. Raises `MalformedFrame`."""
    try:
        return _answers.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedFrame(f"an answer about copies of slots: {error}") from None


def pairs(flat: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The rows of an item as pairs of key and value."""
    return zip(flat[::2], flat[1::2], strict=True)


class ChangesWriter:
    """Gathers the changes for one item."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._bodies: list[bytes] = []
        self._known: dict[bytes, int] = {}

    def add(self, attempt: CopyAttempt, flat: list[bytes | None]) -> None:
        """Add the changes of one slot, as key, value, key, value. The list is not changed."""
        changes: list[bytes | int | None] = list(flat)
        for at in range(0, len(flat), 2):
            key, value = flat[at], flat[at + 1]
            if key is not None and key[:1] == b"p" and value is not None and len(value) >= SHARED_BYTES:
                changes[at + 1] = self._shared(key[2:], value)
        self._parts.append(Part(attempt, changes))

    def _shared(self, mid: bytes, value: bytes) -> int:
        """The place of a payload in `bodies`. All slots have the same bytes under the same mid."""
        place = self._known.get(mid)
        if place is None or self._bodies[place] != value:
            place = self._known[mid] = len(self._bodies)
            self._bodies.append(value)
        return place

    def encoded(self) -> bytes:
        """The item."""
        return encode(Changes(self._parts, self._bodies))


def unpacked(item: Changes, part: Part) -> Iterator[tuple[bytes, bytes | None]]:
    """The changes of a part as pairs of key and value; None deletes."""
    for key, value in zip(part.changes[::2], part.changes[1::2], strict=True):
        assert isinstance(key, bytes)
        yield key, item.bodies[value] if isinstance(value, int) else value

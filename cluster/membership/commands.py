"""The commands of the Raft log that make members and views. A field may be added at the end with a default.

Each start of a process has three marks. `disk` is the text its data directory was born with: another disk is another
peer for Raft. `boot` counts the starts. `process` is random at each start: a backup that was restored has a known disk,
reaches a boot that is in the log already, and is told from the process of that boot by this (H-01); also when
it is started once more, for it does not know the start that the log has.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

Name = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1)]


class MalformedCommand(Exception):
    """Bytes that are no command or no snapshot of a membership; the text says what is wrong and where."""


class Row(Struct, array_like=True, frozen=True, order=True):
    """One incarnation in a view. `since`: the view in which it entered. `serving`: False while it is joining."""

    node: Name
    boot: Count
    since: Count
    serving: bool = False


class _Start(Struct, array_like=True, frozen=True):
    node: Name
    disk: Name
    boot: Count
    process: Name
    address: str


class Settle(Struct, array_like=True, frozen=True, tag=0):
    """The first command of a cluster: its id, and its first member, which serves at once in view 1."""

    cluster_id: Name
    node: Name
    disk: Name
    boot: Count
    process: Name
    address: str


class Join(_Start, array_like=True, frozen=True, tag=1):
    """A new member; or a known one with another disk, whose old disk is forgotten and which counts as emptied."""


class Boot(_Start, array_like=True, frozen=True, tag=2):
    """A start of a member with its known disk: a boot above the logged one, or the same process once more.

    `earlier`: (boot, process) of the disk's starts, from the last on that it knows to be in the log; () if unknown.
    """

    earlier: tuple[tuple[int, str], ...] = ()


class Leave(Struct, array_like=True, frozen=True, tag=3):
    """The node is a member no longer."""

    node: Name


class Stale(Struct, array_like=True, frozen=True, tag=4):
    """A member was away for too long to be brought up to date: it has to return with an empty disk (H-16)."""

    node: Name


class SetView(Struct, array_like=True, frozen=True, tag=5):
    """The next view, in force only if `after` is still the id of the present one (compare and set).

    `alone`: those who serve in it are there and may promise something without those who do not: only they know it then.
    """

    after: Annotated[int, Meta(ge=0)]
    rows: tuple[Row, ...]
    alone: bool = False


class Away(Struct, array_like=True, frozen=True, tag=6):
    """The member has no row in the view since this cluster time, in ms: what `Stale` is counted from.

    `notice_ms`: the cluster time at which a leader gave notice of `Stale`, 0 if it did not.
    """

    node: Name
    since_ms: Count
    notice_ms: Annotated[int, Meta(ge=0)] = 0


Command = Settle | Join | Boot | Leave | Stale | SetView | Away

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)


def encode_command(command: Command) -> bytes:
    """As it stands in the log."""
    return _encoder.encode(command)


def decode_command(data: bytes) -> Command:
    """Raises `MalformedCommand`."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedCommand(f"command of {len(data)} bytes beginning {data[:16].hex(' ')}: {error}") from error
